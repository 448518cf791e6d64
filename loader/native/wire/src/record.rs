//! Entries as LDIF records, and what their rows say of them.

use ldif::write::line;
use tree::description::Stamp;
use tree::fingerprint::{Printer, hash};
use tree::row::hash_uuid;
use tree::{Names, Row, csn};

use crate::Result;
use crate::descriptions::Descriptions;
use crate::message::{Attributes, Entry};

/// Writes records; keeps its memory from entry to entry.
///
/// Values stand as the server sent them, those of one attribute side by side, never folded. A blank
/// line ends each record.
#[derive(Debug)]
pub struct Recorder {
    descriptions: Descriptions,
    seen: Vec<u64>,
    printer: Printer,
    interior: bool,
}

impl Recorder {
    /// `drop`: attributes left out, with any options.
    pub fn new(drop: Names) -> Self {
        let ignore = tree::join::context_csn();
        let descriptions = Descriptions::new(drop, ignore);
        Self { descriptions, seen: Vec::new(), printer: Printer::default(), interior: false }
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
            if matches!(self.descriptions.of(name)?.stamp, Some(Stamp::EntryUuid | Stamp::EntryCsn))
            {
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
        self.write(entry, out, |_, _, _, _| ())
    }

    /// The same, and the row that arranging wants of the record.
    pub fn record_with_row(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>) -> Result<Row> {
        let start = out.len();
        let (mut uuid, mut csn) = (0, 0);
        self.printer.begin();
        self.write(entry, out, |printer, stamp, value, hash| {
            match stamp {
                Some(Stamp::EntryUuid) => uuid = hash_uuid(value),
                Some(Stamp::EntryCsn) => csn = csn::pack(value),
                Some(Stamp::HasSubordinates) | None => {}
            }
            if let Some(hash) = hash {
                printer.add(hash);
            }
        })?;
        let print = self.printer.end(entry.dn);
        let parent = hash(self.printer.name().parent());
        let length = u32::try_from(out.len() - start - 1).unwrap_or(u32::MAX);
        Ok(Row { dn: print.dn, parent, uuid, csn, print: print.combined(), length })
    }

    fn write(
        &mut self,
        entry: &Entry<'_>,
        out: &mut Vec<u8>,
        mut see: impl FnMut(&mut Printer, Option<Stamp>, &[u8], Option<u128>),
    ) -> Result<()> {
        line(out, b"dn", entry.dn);
        self.interior = false;
        self.seen.clear();
        let start = out.len();
        let mut apart = false;
        for attribute in entry.attributes.clone() {
            let (name, values) = attribute?;
            let known = self.descriptions.of(name)?;
            if known.stamp == Some(Stamp::HasSubordinates) {
                self.interior = values.clone().next().transpose()? == Some(b"TRUE");
            }
            if known.dropped {
                continue;
            }
            apart |= self.seen.contains(&known.hash);
            self.seen.push(known.hash);
            for (place, value) in values.enumerate() {
                let value = value?;
                let hash = known.record(place, value, out);
                see(&mut self.printer, known.stamp, value, (!known.ignored).then_some(hash));
            }
        }
        if apart {
            out.truncate(start);
            self.write_together(&entry.attributes, out)?;
        }
        out.push(b'\n');
        Ok(())
    }

    /// Values of an attribute that came in several pieces stand side by side: slapd 2.6.11 to 2.6.14 damage
    /// entries where they do not.
    fn write_together(&mut self, attributes: &Attributes<'_>, out: &mut Vec<u8>) -> Result<()> {
        let mut pieces = Vec::new();
        for attribute in attributes.clone() {
            let (name, values) = attribute?;
            let known = self.descriptions.of(name)?;
            if !known.dropped {
                let first = self.seen.iter().position(|&hash| hash == known.hash);
                pieces.push((first, name, values));
            }
        }
        pieces.sort_by_key(|(first, ..)| *first);
        for (_, name, values) in pieces {
            let known = self.descriptions.of(name)?;
            for value in values {
                known.line(value?, out);
            }
        }
        Ok(())
    }
}
