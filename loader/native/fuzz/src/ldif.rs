//! Reads LDIF: blocks, records, fields and values.

use ::ldif::blocks::Blocks;
use ::ldif::records::Records;
use ::ldif::tail::TruncationDetector;
use ::ldif::walk::each_record;
use ::ldif::{Counters, Entry, Input, Record, Result, write};

/// Limit of a record's size: small, so that inputs reach it.
const MAX_RECORD: usize = 4096;

/// A record: its bytes and the number of its first line.
type Seen = (Vec<u8>, u64);

/// The division into blocks must not affect the records; the records must be in the input in this order; a line that
/// was read and written must parse to the same field.
///
/// # Panics
/// If any of this does not hold.
pub fn run(data: &[u8]) {
    let Some(([size], text)) = crate::switches(data) else { return };
    let size = 1 + usize::from(size);
    let (mut small, mut large) = (Vec::new(), Vec::new());
    let in_blocks = cut(text, size, &mut small);
    let at_once = cut(text, 1 << 20, &mut large);
    if in_blocks.is_ok() && at_once.is_ok() {
        assert_eq!(small, large);
    }
    walk(text, &large);
}

fn cut(text: &[u8], size: usize, seen: &mut Vec<Seen>) -> Result<()> {
    let mut blocks = Blocks::with_sizes(text, size, MAX_RECORD.max(size));
    let (mut passed, mut lines) = (0, 1);
    while let Some(block) = blocks.next_block()? {
        assert_eq!(block.bytes, &text[passed..passed + block.bytes.len()]);
        assert_eq!(block.line, lines);
        assert!(!block.bytes.is_empty());
        passed += block.bytes.len();
        lines += count_lines(block.bytes);
        for record in Records::new(&block) {
            let record = record?;
            seen.push((record.bytes.to_vec(), record.line));
        }
    }
    assert_eq!(passed, text.len());
    Ok(())
}

fn count_lines(bytes: &[u8]) -> u64 {
    bytes.split(|byte| *byte == b'\n').count() as u64 - 1
}

/// Checks that the walk for loading and comparing returns the same records until its first error.
fn walk(text: &[u8], seen: &[Seen]) {
    let (mut expected, mut tail) = (seen.iter(), TruncationDetector::default());
    let counters = Counters::default();
    let done = each_record(Input::from_reader(text), &counters, |record| {
        let (bytes, line) = expected.next().expect("a record that was seen before");
        assert_eq!((record.bytes, record.line), (bytes.as_slice(), *line));
        look(record, &mut tail);
        Ok(())
    });
    match done {
        Ok(bytes) => {
            assert_eq!(bytes, text.len() as u64);
            assert_eq!(counters.entries(), seen.len() as u64);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let _ = tail.end();
}

fn look(record: &Record<'_>, tail: &mut TruncationDetector) {
    assert!(!record.bytes.is_empty() && record.line > 0);
    for field in record.fields().with_urls().map_while(Result::ok) {
        assert!(record.bytes.get(field.span.clone()).is_some() && field.line >= record.line);
        assert!(field.description().starts_with(field.base()));
    }
    let Ok(entry) = record.entry() else { return };
    tail.record(record, &entry.dn);
    fields(entry, tail);
}

/// Reads the fields up to the first malformed one. Each must be unchanged after it is written and read again.
fn fields(entry: Entry<'_>, tail: &mut TruncationDetector) {
    let mut line = Vec::new();
    for field in entry.fields {
        let Ok(field) = field else { return };
        tail.field(&field);
        let Ok(value) = field.value() else { continue };
        line.clear();
        write::line(&mut line, field.description(), &value);
        let written = Record { bytes: &line, line: 1, closed: true, last: true };
        let again = written.fields().next().expect("a line").expect("it reads");
        assert_eq!(again.description(), field.description());
        assert_eq!(again.value().expect("a value"), value);
    }
}
