//! Learns templates from LDIF, and generates trees from them.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use common::{Code, Counters};
use learn::{Learned, Source, learn};

fn learned(ldif: &str, jobs: usize) -> common::Result<Learned> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(ldif.as_bytes()).unwrap();
    learn(vec![Source::Path(file.path().to_path_buf())], jobs, &Counters::default())
}

/// Returns the LDIF that the template generates for `entries` entries of its main kind.
fn generated(template: &str, entries: u64) -> String {
    let read = synth::toml::parse(Path::new("learned.toml"), template, &[]).unwrap();
    let options = synth::Options { entries: Some(entries), ..synth::Options::default() };
    let tree = synth::compile(&read, &options).unwrap();
    let (mut maker, mut out) = (synth::Maker::new(&tree), Vec::new());
    (0..tree.entries()).for_each(|number| maker.entry(number, &mut out));
    String::from_utf8(out).unwrap()
}

const HEAD: &str = "dn: dc=corp,dc=test\nobjectClass: domain\ndc: corp\n\n\
                    dn: ou=people,dc=corp,dc=test\nobjectClass: organizationalUnit\nou: people\n\n";

fn people(count: usize, attributes: impl Fn(usize) -> String) -> String {
    let mut ldif = HEAD.to_owned();
    for number in 0..count {
        let more = attributes(number);
        let dn = format!("uid=p{number:05},ou=people,dc=corp,dc=test");
        let _ = writeln!(ldif, "dn: {dn}\nobjectClass: account\nuid: p{number:05}\n{more}");
    }
    ldif
}

fn line<'t>(template: &'t str, name: &str) -> &'t str {
    let head = format!("{name} = ");
    template.lines().find(|line| line.starts_with(&head)).unwrap_or_default()
}

#[test]
fn values_are_classified() {
    let ldif = people(400, |number| {
        format!(
            "enabled: {}\nseen: 20{:02}0101000000Z\nmanager: uid=p{:05},ou=people,dc=corp,dc=test\n\
             id: 6ba7b810-9dad-11d1-80b4-{number:012}\nuserPassword: {{SSHA512}}{}\n",
            if number % 4 == 0 { "TRUE" } else { "FALSE" },
            10 + number % 10,
            number / 2,
            "abcd".repeat(20),
        )
    });
    let template = learned(&ldif, 2).unwrap().template;
    for (name, part) in [
        ("enabled", "{shape:account-enabled}"),
        ("seen", "{time:20100101:20200101}"),
        ("manager", "{dn:account}"),
        ("id", "{uuid}"),
        ("userPassword", "{{SSHA512}}{chars:base64:histogram:80=10000}"),
        ("below", "ou=people"),
    ] {
        assert!(line(&template, name).contains(part), "{name}: {}", line(&template, name));
    }
    let ldif = generated(&template, 100);
    assert_eq!(ldif.matches("\ndn: uid=").count(), 100);
    assert_eq!(ldif.matches("\nmanager: uid=").count(), 100);
}

#[test]
fn frequencies_and_counts_of_values_are_kept() {
    let ldif = people(1000, |number| {
        let phones = (0..number % 3)
            .fold(String::new(), |text, phone| text + &format!("phone: {}\n", 100_000 + number * 7 + phone));
        let room = if number % 10 == 0 { "room: 17\n" } else { "" };
        let rare = if number < 3 { "secret: hidden\n" } else { "" };
        format!("{phones}{room}{rare}")
    });
    let template = learned(&ldif, 1).unwrap().template;
    assert!(line(&template, "room").contains("chance = 0.1 "), "{}", line(&template, "room"));
    assert!(line(&template, "phone").contains("count = \"histogram:1=5"), "{template}");
    assert!(!template.contains("secret"), "{template}");
    let ldif = generated(&template, 1000);
    let phones = ldif.matches("\nphone: ").count();
    assert!((950..1050).contains(&phones), "{phones}");
}

#[test]
fn naming_values_are_unique() {
    let word = |number: usize| format!("n{}", ["ab", "cd", "ef"][number % 3].repeat(number % 4 + 1));
    let mut ldif = HEAD.to_owned();
    for number in 0..500 {
        let name = format!("{}-{}", word(number), word(number / 12));
        let _ = writeln!(ldif, "dn: cn={name},ou=people,dc=corp,dc=test\nobjectClass: person\ncn: {name}\n");
    }
    let template = learned(&ldif, 1).unwrap().template;
    let ldif = generated(&template, 5000);
    let mut names: Vec<&str> = ldif.lines().filter(|line| line.starts_with("dn: cn=")).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 5000);
}

#[test]
fn the_number_of_jobs_does_not_matter() {
    let ldif = people(3000, |number| format!("sn: name{}\n", number % 77));
    assert_eq!(learned(&ldif, 1).unwrap(), learned(&ldif, 3).unwrap());
}

#[test]
fn a_tree_without_its_suffix_can_be_learned_from() {
    let ldif = people(500, |_| String::new());
    let people = &ldif[HEAD.len()..];
    let learned = learned(people, 1).unwrap();
    assert_eq!((learned.main, learned.kinds), (500, 1));
    assert_eq!(generated(&learned.template, 20).matches("dn: uid=").count(), 20);
}

#[test]
fn unusual_attribute_names_are_accepted() {
    let ldif = people(100, |number| {
        format!("number: {number}\nx;lang-en: a{number}\nx;binary: b\ndn2: {number}\n1.2.3: {{brace}}{number}\n")
    });
    let template = learned(&ldif, 1).unwrap().template;
    assert_eq!(generated(&template, 10).matches("dn: uid=").count(), 10);
}

#[test]
fn an_empty_source_is_refused() {
    for ldif in ["", HEAD] {
        assert_eq!(learned(ldif, 1).unwrap_err().code, Code::Empty);
    }
}

#[test]
fn the_number_of_kinds_is_bounded() {
    let mut ldif = HEAD.to_owned();
    for number in 0..6000 {
        let kind = number / 2;
        let dn = format!("cn=e{number},ou=people,dc=corp,dc=test");
        let _ = writeln!(ldif, "dn: {dn}\nobjectClass: class{kind}\ncn: e{number}\n");
    }
    ldif += &people(50, |_| String::new())[HEAD.len()..];
    let learned = learned(&ldif, 2).unwrap();
    assert_eq!(learned.kinds, 1);
    assert_eq!(learned.left_out, 6000);
}

#[test]
fn overlong_and_empty_values_are_accepted() {
    let ldif = people(50, |number| format!("long: {}\nempty:\nmarks: - - - - - - -\n", "x y ".repeat(400 + number)));
    let template = learned(&ldif, 1).unwrap().template;
    let size = generated(&template, 50).len();
    assert!((ldif.len() * 9 / 10..ldif.len() * 11 / 10).contains(&size), "{size} {}", ldif.len());
}
