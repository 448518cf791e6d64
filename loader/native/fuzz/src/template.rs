//! Reads and compiles templates of synthetic trees, and generates some entries.

use std::path::Path;

use ldif::Record;
use synth::{EntryRef, Maker, Options, Tree, compile, toml};

use crate::switches;

/// A tag that is slow on purpose, and how often an input may use it: many Argon2 hashes would look like a hang.
const SLOW: (&str, usize) = ("argon2", 2);

/// An invalid template must be refused with a location. The entries of a valid template must parse as LDIF, must be the
/// same each time, and must have a parent with a smaller number.
///
/// # Panics
/// If any of this does not hold.
pub fn run(data: &[u8]) {
    let Some(([entries, more], text)) = switches(data) else { return };
    let text = String::from_utf8_lossy(text);
    if text.matches(SLOW.0).count() > SLOW.1 {
        return;
    }
    let options = Options {
        seed: i64::from(more),
        suffix: (more & 2 > 0).then(|| "o=fuzz".to_owned()),
        otherwise: Some(1 << (entries % 40)),
        operational: more & 1 > 0,
        ..Options::default()
    };
    let parsed = toml::parse(Path::new("fuzz.toml"), &text, &[]);
    match parsed.and_then(|template| compile(&template, &options)) {
        Ok(tree) => look(&tree),
        Err(problem) => assert!(!problem.message.is_empty()),
    }
}

fn look(tree: &Tree) {
    let last = tree.entries() - 1;
    for number in [0, 1, last / 2, last].map(|number| number.min(last)) {
        let place = tree.place(number);
        assert_eq!(tree.number(place), number);
        let (mut record, mut again) = (Vec::new(), Vec::new());
        let mut maker = Maker::new(tree);
        maker.entry(number, &mut record);
        maker.entry(number, &mut again);
        assert_eq!(record, again);
        read(&record);
        if let EntryRef::Entry { kind, index } = place {
            assert!(tree.number(tree.parent(kind, index)) < number);
        }
    }
}

fn read(record: &[u8]) {
    let bytes = record.strip_suffix(b"\n").expect("an empty line after the record");
    let record = Record { bytes, line: 1, closed: true, last: false };
    let entry = record.entry().expect("a record");
    assert!(!entry.dn.is_empty());
    for field in entry.fields {
        let field = field.expect("a line");
        assert!(!field.value().expect("a value").is_empty());
    }
}
