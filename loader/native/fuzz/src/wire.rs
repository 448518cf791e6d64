//! Parses the bytes of a server: messages, and entries that become records and rows.

use ::ldif::blocks::Block;
use ::ldif::records::Records;
use ::ldif::{Field, Record};
use ::wire::buffer::Input;
use ::wire::message::Entry;
use ::wire::{Message, Recorder};
use tree::fingerprint::Fingerprinter;
use tree::{EntryRecord, Names, join};

/// OID of simple paged results (RFC 2696).
const PAGED: &[u8] = b"1.2.840.113556.1.4.319";
/// Attribute names with a special meaning in LDIF (RFC 2849): no reader takes these lines for attributes.
const WORDS: [&str; 3] = ["dn", "control", "changetype"];

/// The division of the bytes into reads must not affect the messages. A record must parse to the entry that it was
/// written from, and the entry's row must equal the row derived from the record.
///
/// # Panics
/// If any of this does not hold.
pub fn run(data: &[u8]) {
    let Some(([step], bytes)) = crate::switches(data) else { return };
    let (messages, sound) = cut(bytes, bytes.len().max(1));
    assert_eq!(cut(bytes, 1 + usize::from(step)), (messages.clone(), sound));
    let mut recorder = Recorder::new(Names::new(["b"]));
    for message in &messages {
        let Ok(message) = Message::read(message) else { return };
        look(&message, &mut recorder);
    }
}

/// Returns the messages before the first invalid one, and whether all are valid.
fn cut(mut bytes: &[u8], step: usize) -> (Vec<Vec<u8>>, bool) {
    let (mut input, mut messages) = (Input::default(), Vec::new());
    loop {
        match input.next() {
            Err(_) => return (messages, false),
            Ok(Some(place)) => messages.push(input.bytes(place).to_vec()),
            Ok(None) if bytes.is_empty() => return (messages, true),
            Ok(None) => {
                let room = input.room();
                let (some, rest) = bytes.split_at(step.min(bytes.len()).min(room.len()));
                room[..some.len()].copy_from_slice(some);
                input.fill(some.len());
                bytes = rest;
            }
        }
    }
}

fn look(message: &Message<'_>, recorder: &mut Recorder) {
    let _ = (message.control(PAGED), message.extended(), message.intermediate(PAGED));
    if let Ok(result) = message.result() {
        let outcome = result.check().map_err(|error| error.to_string());
        assert_eq!(outcome.is_ok(), result.code == 0);
    }
    if let Ok(entry) = message.entry() {
        record(&entry, recorder);
    }
}

fn record(entry: &Entry<'_>, recorder: &mut Recorder) {
    let (mut text, mut plain) = (Vec::new(), Vec::new());
    let row = recorder.record_with_row(entry, &mut text);
    assert_eq!(recorder.record(entry, &mut plain).is_ok(), row.is_ok());
    let Ok(row) = row else { return };
    assert_eq!(text, plain);
    recorder.note(entry, &mut plain).expect("a recorded entry has a note");
    let block = Block { bytes: &text, line: 1, last: true };
    let mut records = Records::new(&block);
    let record = records.next().expect("a record").expect("a complete record");
    assert!(records.next().is_none(), "two records");
    if !entry.attributes.clone().flatten().any(|(name, _)| is_word(name)) {
        reads_the_same(&record, entry, &row);
    }
}

fn is_word(name: &[u8]) -> bool {
    WORDS.iter().any(|word| name.eq_ignore_ascii_case(word.as_bytes()))
}

fn reads_the_same(record: &Record<'_>, entry: &Entry<'_>, row: &EntryRecord) {
    let read = record.entry().expect("a record is an entry");
    assert_eq!(read.dn, entry.dn);
    let mut found: Vec<_> = read.fields.map(|field| pair(&field.expect("a field"))).collect();
    let mut sent: Vec<_> = pairs(entry).collect();
    found.sort_unstable();
    sent.sort_unstable();
    assert_eq!(found, sent);
    let mut printer = Fingerprinter::new(join::context_csn());
    assert_eq!(EntryRecord::of(record, &mut printer).expect("a row"), *row);
}

fn pair(field: &Field<'_>) -> (Vec<u8>, Vec<u8>) {
    let value = field.value().expect("a value");
    (field.description().to_vec(), value.to_vec())
}

/// Returns the descriptions and values of all attributes that are not dropped.
fn pairs(entry: &Entry<'_>) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let attributes = entry.attributes.clone().flatten();
    let wanted = attributes.filter(|(name, _)| {
        let base = name.split(|&byte| byte == b';').next().unwrap_or_default();
        !base.eq_ignore_ascii_case(b"b")
    });
    wanted.flat_map(|(name, values)| values.flatten().map(|value| (name.to_vec(), value.to_vec())))
}
