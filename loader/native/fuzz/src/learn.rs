//! Learns templates from LDIF.

use std::path::Path;

use ::ldif::walk::each_record;
use ::ldif::{Code, Counters};
use ::learn::{Learned, Source};
use synth::{Maker, Options, compile, toml};

/// A text that no value in a template may contain; names of attribute types and classes may contain it.
const SECRET: &str = "zq4711";
/// A placeholder for the number of the copy, so that a short input yields many entries.
const NUMBER: &str = "@";

/// The input is two bytes of switches, then LDIF. If a server could hold the entries, the learned template must be
/// valid. It must contain no value of the input, and must be the same with any number of workers.
///
/// # Panics
/// If any of this does not hold.
pub fn run(data: &[u8]) {
    let Some(([copies, more], text)) = crate::switches::<2>(data) else { return };
    let text = repeated(&String::from_utf8_lossy(text), 1 << (copies % 8));
    let first = match learn(&text, 1) {
        Ok(learned) => learned,
        Err(error) => {
            assert_ne!(error.code, Code::Damaged, "{error}");
            return assert!(!error.to_string().is_empty());
        }
    };
    let input = look(&text);
    if !input.unnamed {
        generate(&first, 1 + u64::from(more));
    }
    if !input.in_names {
        assert!(!first.template.to_lowercase().contains(SECRET), "{}", first.template);
    }
    if more & 1 > 0 {
        assert_eq!(learn(&text, 2).expect("as before"), first);
    }
}

/// Returns the first record once, and the other records `copies` times.
fn repeated(text: &str, copies: usize) -> String {
    let (head, rest) = text.split_once("\n\n").unwrap_or((text, ""));
    let rest = (0..copies).map(|copy| rest.replace(NUMBER, &copy.to_string()) + "\n\n");
    format!("{head}\n\n{}", rest.collect::<String>())
}

fn learn(text: &str, jobs: usize) -> ::ldif::Result<Learned> {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("a file");
    ::learn::learn(vec![Source::Path(file.path().to_owned())], jobs, &Counters::default())
}

fn generate(learned: &Learned, entries: u64) {
    let template = &learned.template;
    let read = toml::parse(Path::new("learned.toml"), template, &[]);
    let read = read.unwrap_or_else(|problem| panic!("{}\n{template}", problem.message));
    let options = Options { otherwise: Some(entries), ..Options::default() };
    let tree = compile(&read, &options).unwrap_or_else(|problem| panic!("{}\n{template}", problem.message));
    let (mut maker, mut record) = (Maker::new(&tree), Vec::new());
    for number in [0, tree.entries() / 2, tree.entries() - 1] {
        maker.entry(number, &mut record);
    }
    assert!(record.starts_with(b"dn: ") || record.starts_with(b"dn:: "));
}

/// Properties of the input.
#[derive(Default)]
struct Input {
    /// Whether the secret is used as a name: in a description, in a DN, or as an object class.
    in_names: bool,
    /// Whether an entry lacks its naming attribute. No server accepts that, and generated entries may then share a DN.
    unnamed: bool,
}

fn look(text: &str) -> Input {
    let has = |bytes: &[u8]| String::from_utf8_lossy(bytes).to_lowercase().contains(SECRET);
    let mut found = Input::default();
    let source = ::ldif::Input::from_reader(text.as_bytes());
    let walked = each_record(source, &Counters::default(), |record| {
        let entry = record.entry()?;
        let (mut names, dn) = (Vec::new(), entry.dn.to_ascii_lowercase());
        found.in_names |= has(&dn);
        for field in entry.fields {
            let field = field?;
            let name = field.description().to_ascii_lowercase();
            found.in_names |= has(&name) || name == b"objectclass" && has(&field.value()?);
            names.push(name);
        }
        found.unnamed |= !is_named(&dn, &names);
        Ok(())
    });
    found.in_names |= walked.is_err();
    found
}

/// Whether an entry has its naming attributes. Escapes are ignored, so it may wrongly return false.
fn is_named(dn: &[u8], names: &[Vec<u8>]) -> bool {
    let rdn = dn.split(|byte| *byte == b',').next().unwrap_or_default();
    rdn.split(|byte| *byte == b'+').all(|part| {
        let name = part.split(|byte| *byte == b'=').next().unwrap_or_default();
        names.iter().any(|known| known == name.trim_ascii())
    })
}
