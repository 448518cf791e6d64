//! Whole templates: what they make, and what is said of those that make no sense.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use synth::{Maker, Options, Problem, Tree, compile};

const PERSON: &str = "rdnAttr: uid\nobjectClass: account\nuid: u<sequential:1>\n";

fn tree(text: &str) -> Result<Tree, Problem> {
    let template = super::parse(Path::new("/nowhere/t"), text, &[], &BTreeMap::new())?;
    compile(&template, &Options { seed: 1, ..Options::default() })
}

fn told(text: &str) -> String {
    tree(text).unwrap_err().located()
}

fn made(text: &str) -> String {
    let tree = tree(text).unwrap();
    let mut maker = Maker::new(&tree);
    let mut out = Vec::new();
    for number in 0..tree.entries() {
        maker.entry(number, &mut out);
    }
    String::from_utf8(out).unwrap()
}

fn lines<'a>(text: &'a str, start: &str) -> Vec<&'a str> {
    text.lines().filter_map(|line| line.strip_prefix(start)).collect()
}

#[test]
fn counters_go_on_in_the_order_of_makeldif() {
    let made = made(&format!(
        "branch: dc=x\nsubordinateTemplate: team:2\nsubordinateTemplate: p:1\n\n\
         template: team\nrdnAttr: ou\nsubordinateTemplate: p:2\nobjectClass: organizationalUnit\nou: t<sequential>\n\n\
         template: p\n{PERSON}"
    ));
    let names = ["dc=x", "ou=t0,dc=x", "ou=t1,dc=x", "uid=u1,ou=t0,dc=x", "uid=u2,ou=t0,dc=x"];
    let more = ["uid=u3,ou=t1,dc=x", "uid=u4,ou=t1,dc=x", "uid=u5,dc=x"];
    assert_eq!(lines(&made, "dn: "), [&names[..], &more].concat());
}

#[test]
fn a_template_that_is_used_on_two_levels_makes_all_its_entries() {
    // makeldif 4.9.3 forgets those of the upper level, and of a template that stands twice below one entry.
    let made = made(&format!(
        "branch: dc=x\nsubordinateTemplate: team:1\n\n\
         template: team\nrdnAttr: ou\nsubordinateTemplate: sub:1\nsubordinateTemplate: p:3\nsubordinateTemplate: p:1\n\
         objectClass: organizationalUnit\nou: t\n\n\
         template: sub\nrdnAttr: ou\nsubordinateTemplate: p:2\nobjectClass: organizationalUnit\nou: s\n\n\
         template: p\n{PERSON}"
    ));
    let mut names = lines(&made, "uid: ");
    names.sort_unstable();
    assert_eq!(names, ["u1", "u2", "u3", "u4", "u5", "u6"]);
}

#[test]
fn what_extends_another_leaves_it_as_it_is() {
    // makeldif 4.9.3 gives the lines of the one to the other, too. Their counters are the same.
    let made = made(&format!(
        "branch: dc=x\nsubordinateTemplate: p:1\nsubordinateTemplate: q:2\n\ntemplate: p\n{PERSON}\n\
         template: q\nextends: p\nrdnAttr: uid\ndescription: more\n"
    ));
    assert_eq!(lines(&made, "uid: "), ["u1", "u2", "u3"]);
    assert_eq!(lines(&made, "description: "), ["more", "more"]);
}

#[test]
fn a_line_may_hang_on_one_of_several() {
    let made = made(
        "branch: dc=x\nsubordinateTemplate: p:3\n\ntemplate: p\nrdnAttr: uid\nobjectClass: account\n\
         uid: u<sequential:1>\nl: <ifpresent:uid:u1>a\nl: <ifpresent:uid:u2>b\nhost: <ifpresent:l>{l}\n\
         ou: <ifabsent:l>none\nst: <ifpresent:l:a>A\nst: <ifpresent:l:b>B\nst: <ifabsent:l:a>not A\n",
    );
    assert_eq!(lines(&made, "host: "), ["a", "b"]);
    assert_eq!(lines(&made, "ou: "), ["none"]);
    assert_eq!(lines(&made, "st: "), ["A", "B", "not A", "not A"]);
}

#[test]
fn a_name_is_the_first_value_that_is_there() {
    let made = made(
        "branch: dc=x\nsubordinateTemplate: p:2\n\ntemplate: p\nrdnAttr: cn\nobjectClass: device\n\
         uid: u<sequential:1>\ncn: <ifpresent:uid:u1>first\ncn: {uid}\n",
    );
    assert_eq!(lines(&made, "dn: "), ["dc=x", "cn=first,dc=x", "cn=u2,dc=x"]);
    assert_eq!(lines(&made, "cn: "), ["first", "u1", "u2"]);
}

#[test]
fn mistakes_are_told_with_their_spot() {
    let below =
        |body: &str| format!("branch: dc=x\nsubordinateTemplate: p:2\n\ntemplate: p\n{body}");
    let cases = [
        (
            below("rdnAttr: cn\ncn: <sequentail:1>\n"),
            "line 6, column 5: no tag is named sequentail (did you mean Sequential?)",
        ),
        (
            below("rdnAttr: cn\ncn: [x]\n"),
            "line 6, column 5: no define named x; write \\[x\\] for the text itself",
        ),
        (
            below("rdnAttr: cn\nsn: a\ncn: a{mail}\nmail: b\n"),
            "line 7, column 6: no line before this one makes mail (there are: sn)",
        ),
        (
            below("rdnAttr: cn\ncn: <ifpresent:cnn>a\n"),
            "line 6, column 5: no line before this one makes cnn",
        ),
        (
            below("cn: a\n"),
            "line 4, column 11: template p has no rdnAttr, so its entries have no name",
        ),
        (
            below("rdnAttr: uid + cm\nuid: a\ncn: a\n"),
            "line 5, column 16: rdnAttr cm: the template has no line for it (did you mean cn?)",
        ),
        (
            below("rdnAttr: cn\ncn: <presence:50>a\n"),
            "line 5, column 10: rdnAttr cn: an entry without cn would have no name",
        ),
        (
            below("rdnAttr: cn\ncn: <file:no.such>\n"),
            "line 6, column 5: there is no file no.such in /nowhere, nor one of that name among ours",
        ),
        (
            below("rdnAttr: cn\ncn: <random:alpha:2000000>\n"),
            "line 6, column 5: random: \"2000000\" is not a number from 0 to 1048576",
        ),
        (
            below("rdnAttr: cn\nsubordinateTemplate: p:1\ncn: a\n"),
            "line 6, column 22: p lies below itself, without end: p > p",
        ),
        (
            below("rdnAttr: cn\nsubordinateTemplate: q\ncn: a\n\ntemplate: q\n"),
            "line 6, column 22: write how many, q:10; only below a branch may that be left to -n",
        ),
        (
            "branch: dc=x\nsubordinateTemplate: pp:1\n\ntemplate: p\n".to_owned(),
            "line 2, column 22: no template is named pp (did you mean p?)",
        ),
        (
            "template: p\nrdnAttr: cn\ncn: a\n".to_owned(),
            "line 1, column 1: a template needs a branch: for its entries to lie below",
        ),
        ("branch: example.com\n".to_owned(), "line 1, column 9: \"example.com\" is not a DN"),
        (
            "branch: dc=x\nl: <first>\n".to_owned(),
            "line 2, column 4: a branch cannot have this tag",
        ),
        (
            "branch: dc=x\nl: <random:hex:2>\nst: {l}\n".to_owned(),
            "line 3, column 5: l hangs on chance, and what does can be told only once in a branch",
        ),
        ("branch: dc=x\n\nbranch: DC=X\n".to_owned(), "line 3, column 9: \"DC=X\" stands twice"),
    ];
    for (text, message) in cases {
        assert_eq!(told(&text), message, "{text}");
    }
}

#[test]
fn a_branch_may_lie_below_what_is_made_elsewhere() {
    let text = format!(
        "define suffix=dc=x\nbranch: ou=a,[suffix]\nsubordinateTemplate: p:1\n\ntemplate: p\n{PERSON}"
    );
    assert_eq!(tree(&text).unwrap().suffix, "dc=x");
    assert_eq!(lines(&made(&text), "dn: "), ["ou=a,dc=x", "uid=u1,ou=a,dc=x"]);
    let wrong = told("branch: ou=a,dc=x\n\nbranch: dc=x\n");
    assert_eq!(wrong, "line 1, column 9: \"ou=a,dc=x\": its parent must stand before it");
}

#[test]
fn hostile_templates_are_refused() {
    let chain = |times: &str| {
        let mut text = format!("branch: dc=x\nsubordinateTemplate: t0:{times}\n\n");
        for n in 0..60 {
            let below = format!("subordinateTemplate: t{}:{times}\n", n + 1);
            let _ = write!(
                text,
                "template: t{n}\nrdnAttr: cn\n{below}{below}objectClass: device\ncn: a\n\n"
            );
        }
        text + "template: t60\nrdnAttr: cn\nobjectClass: device\ncn: a\n"
    };
    assert!(told(&chain("1")).contains("too many kinds"));
    assert!(told(&chain("0")).contains("too many kinds"));
    let many = chain("1000000000000000000").replacen(
        "subordinateTemplate: t2:",
        "subordinateTemplate: t60:",
        2,
    );
    assert!(told(&many).contains("counted"), "{}", told(&many));
    let mut doubled =
        format!("branch: dc=x\nsubordinateTemplate: p:1\n\ntemplate: p\n{PERSON}x0: 0123456789\n");
    for n in 0..60 {
        let _ = writeln!(doubled, "x{}: {{x{n}}}{{x{n}}}", n + 1);
    }
    assert!(told(&doubled).contains("bytes"), "{}", told(&doubled));
}

#[test]
fn no_text_whatever_makes_it_panic() {
    for text in [
        "",
        "\u{feff}",
        "branch:",
        "branch: ",
        "template:",
        "define",
        "define =",
        "branch: dc=x\n:\n",
        "branch: dc=x\n<\n",
    ] {
        assert!(tree(text).is_err(), "{text:?}");
    }
    let whole = "define a=b\n\nbranch: dc=\u{e9},dc=x\nou: [a]\u{e9}<dn:1>{ou:1}\\<\nsubordinateTemplate: p:2\n\n\
                 template: p\nextends: q\nrdnAttr: cn+sn\ncn: <first>\u{e9}<list:\u{e9};2:b>\nsn: <random:chars:\u{e9}x:1:3>\n";
    for start in 0..whole.len() {
        for end in start..whole.len() {
            if let Some(text) = whole.get(start..end) {
                let _ = tree(text);
            }
        }
    }
}

#[test]
fn large_templates_take_no_time() {
    let members: String = (0..20_000).fold(String::new(), |mut text, n| {
        let _ = writeln!(text, "member: cn=u{n},dc=x");
        text
    });
    let group = "branch: dc=x\nsubordinateTemplate: g:1\n\ntemplate: g\nrdnAttr: cn\nobjectClass: groupOfNames\ncn: g\n";
    assert_eq!(lines(&made(&format!("{group}{members}")), "member: ").len(), 20_000);
    let mut circle = group.to_owned();
    for _ in 0..5_000 {
        circle.push_str("l: <presence:50>x\nst: <ifabsent:l>y\n");
    }
    assert!(told(&circle).contains("too much of one another"), "{}", told(&circle));
    let mut wide = group.to_owned();
    for n in 0..20_000 {
        let _ = writeln!(wide, "a{n}: x");
    }
    assert!(told(&wide).contains("too much"));
}

#[test]
fn a_line_that_never_is_tells_nothing() {
    let made = made(
        "branch: dc=x\nsubordinateTemplate: p:1\n\ntemplate: p\nrdnAttr: cn\nobjectClass: device\ncn: a\n\
         l: <ifabsent:cn>b\nou: <presence:0>c\nst: ({l}|{ou})\nuid: <ifpresent:l>d\n",
    );
    assert_eq!(lines(&made, "st: "), ["(|)"]);
    assert!(lines(&made, "uid: ").is_empty());
}

#[test]
fn long_lines_take_no_time() {
    let group = "define a=b\n\nbranch: dc=x\nsubordinateTemplate: g:1\n\ntemplate: g\nrdnAttr: cn\nobjectClass: device\ncn: g\nl: ";
    let tags = made(&format!("{group}{}\n", "x<sequential:1>".repeat(60_000)));
    assert_eq!(lines(&tags, "l: ")[0].len(), 120_000);
    let defined = made(&format!("{group}{}\n", "[a]\n ".repeat(100_000)));
    assert_eq!(lines(&defined, "l: "), ["b".repeat(100_000)]);
}
