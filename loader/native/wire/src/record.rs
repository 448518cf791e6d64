//! Entries as LDIF records, and what their rows say of them.

use ldif::write::line;
use tree::description::IdentityAttributes;
use tree::fingerprint::{Fingerprinter, hash, hash_value};
use tree::row::hash_uuid;
use tree::{Description, EntryRecord, Names, csn};

use crate::Result;
use crate::descriptions::Descriptions;
use crate::message::{Entry, Values};

/// Writes records; keeps its memory from entry to entry.
///
/// Values stand as the server sent them, those of one attribute side by side, never folded. A blank
/// line ends each record.
#[derive(Debug)]
pub struct Recorder {
    descriptions: Descriptions,
    seen: Vec<u64>,
    printer: Fingerprinter,
    interior: bool,
}

impl Recorder {
    /// `drop`: attributes left out, with any options.
    pub fn new(drop: Names) -> Self {
        let ignore = tree::join::context_csn();
        let descriptions = Descriptions::new(drop, ignore);
        Self { descriptions, seen: Vec::new(), printer: Fingerprinter::default(), interior: false }
    }

    /// Appends the name, entryUUID and entryCSN of the entry that was recorded last, if the server said that it has
    /// entries below it.
    pub fn note(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>) -> Result<()> {
        if !self.interior {
            return Ok(());
        }
        line(out, b"dn", entry.dn);
        for attribute in entry.attributes.clone() {
            let (name, values) = attribute?;
            if matches!(
                self.descriptions.of(name)?.stamp,
                Some(IdentityAttributes::EntryUuid | IdentityAttributes::EntryCsn)
            ) {
                for value in values {
                    line(out, name, value?);
                }
            }
        }
        out.push(b'\n');
        Ok(())
    }

    /// Appends the record to `out`.
    pub fn record(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>) -> Result<()> {
        self.write(entry, out, &mut RowValues::default())
    }

    /// The same, and the row that arranging wants of the record.
    pub fn record_with_row(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>) -> Result<EntryRecord> {
        let start = out.len();
        let mut seen = RowValues::default();
        self.write(entry, out, &mut seen)?;
        let RowValues { uuid, csn } = seen;
        let print = self.printer.end(entry.dn);
        let parent = hash(self.printer.name().parent());
        let length = u32::try_from(out.len() - start - 1).unwrap_or(u32::MAX);
        Ok(EntryRecord { dn: print.dn, parent, uuid, csn, print: print.combined(), length })
    }

    fn write(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>, row: &mut RowValues) -> Result<()> {
        line(out, b"dn", entry.dn);
        self.printer.begin();
        self.interior = false;
        self.seen.clear();
        let start = out.len();
        for attribute in entry.attributes.clone() {
            let (name, values) = attribute?;
            let (known, new) = self.descriptions.next(name, self.seen.is_empty())?;
            if known.stamp == Some(IdentityAttributes::HasSubordinates) {
                self.interior = values.clone().next().transpose()? == Some(b"TRUE");
            }
            if !new && self.seen.contains(&known.hash) {
                out.truncate(start);
                return self.write_together(entry, out, row);
            }
            self.seen.push(known.hash);
            if !known.dropped {
                attribute_lines(known, values, &mut self.printer, out, row)?;
            }
        }
        out.push(b'\n');
        Ok(())
    }

    /// Values of an attribute that came in several pieces stand side by side: slapd 2.6.11 to 2.6.14 damage
    /// entries where they do not.
    fn write_together(
        &mut self,
        entry: &Entry<'_>,
        out: &mut Vec<u8>,
        row: &mut RowValues,
    ) -> Result<()> {
        let mut pieces = Vec::new();
        self.seen.clear();
        for attribute in entry.attributes.clone() {
            let (name, values) = attribute?;
            let known = self.descriptions.of(name)?;
            self.seen.push(known.hash);
            if !known.dropped {
                let first = self.seen.iter().position(|&hash| hash == known.hash);
                pieces.push((first, name, values));
            }
        }
        pieces.sort_by_key(|(first, ..)| *first);
        self.printer.begin();
        for (_, name, values) in pieces {
            let known = self.descriptions.of(name)?;
            for value in values {
                let value = value?;
                known.line(value, out);
                row.see(known, value);
                if !known.ignored {
                    self.printer.add(hash_value(known.hash, value));
                }
            }
        }
        out.push(b'\n');
        Ok(())
    }
}

/// What a row has of an entry's values.
#[derive(Debug, Default)]
struct RowValues {
    uuid: u128,
    csn: u128,
}

impl RowValues {
    #[inline]
    fn see(&mut self, known: &Description, value: &[u8]) {
        match known.stamp {
            Some(IdentityAttributes::EntryUuid) => self.uuid = hash_uuid(value),
            Some(IdentityAttributes::EntryCsn) => self.csn = csn::pack(value),
            Some(IdentityAttributes::HasSubordinates) | None => {}
        }
    }
}

/// The lines of an attribute of which an entry has no other values.
#[inline]
fn attribute_lines(
    known: &Description,
    values: Values<'_>,
    printer: &mut Fingerprinter,
    out: &mut Vec<u8>,
    row: &mut RowValues,
) -> Result<()> {
    let mut only = None;
    for (place, value) in values.enumerate() {
        let value = value?;
        let hash = known.record(place, value, out);
        row.see(known, value);
        if place == 0 {
            only = Some(hash);
        } else {
            only.take().into_iter().chain([hash]).for_each(|hash| add(known, hash, printer));
        }
    }
    if let Some(hash) = only.filter(|_| !known.ignored) {
        printer.add_single(hash);
    }
    Ok(())
}

#[inline]
fn add(known: &Description, hash: u128, printer: &mut Fingerprinter) {
    if !known.ignored {
        printer.add(hash);
    }
}
