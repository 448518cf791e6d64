//! Converts entries to LDIF records with rows, or to fingerprints, or only counts the entries.

use common::Counters;
use ldif::write::line;
use tree::description::IdentityAttributes;
use tree::fingerprint::{Fingerprinter, hash, hash_value};
use tree::row::hash_uuid;
use tree::{Description, Digest, EntryRecord, Names, csn};

use crate::message::{Entry, Values};
use crate::{Channel, Error, Result, Search, search};

/// Writes entries as LDIF records, and reuses its buffers from entry to entry.
///
/// Values are written as the server sent them and never folded; all values of an attribute are together. A blank line
/// ends each record.
#[derive(Debug)]
pub struct Recorder {
    descriptions: Descriptions,
    seen: Vec<u64>,
    printer: Fingerprinter,
    interior: bool,
}

impl Recorder {
    /// `drop` are attributes to omit, with all their options.
    pub fn new(drop: Names) -> Self {
        let descriptions = Descriptions::new(drop, tree::join::context_csn());
        Self { descriptions, seen: Vec::new(), printer: Fingerprinter::default(), interior: false }
    }

    /// Appends the DN, entryUUID and entryCSN of `entry`, the last recorded entry, if its hasSubordinates is TRUE.
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
        self.write(entry, out, None)
    }

    /// Appends the record and returns the row that arranging needs.
    pub fn record_with_row(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>) -> Result<EntryRecord> {
        let start = out.len();
        let mut row = RowValues::default();
        self.write(entry, out, Some(&mut row))?;
        let RowValues { uuid, csn } = row;
        let print = self.printer.end(entry.dn);
        let parent = hash(self.printer.name().parent());
        let length = u32::try_from(out.len() - start - 1).unwrap_or(u32::MAX);
        Ok(EntryRecord { dn: print.dn, parent, uuid, csn, print: print.combined(), length })
    }

    fn write(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>, mut row: Option<&mut RowValues>) -> Result<()> {
        line(out, b"dn", entry.dn);
        self.printer.begin();
        self.interior = false;
        self.seen.clear();
        let start = out.len();
        for attribute in entry.attributes.clone() {
            let (name, values) = attribute?;
            let (description, new) = self.descriptions.next(name, self.seen.is_empty())?;
            if description.stamp == Some(IdentityAttributes::HasSubordinates) {
                self.interior = values.clone().next().transpose()? == Some(b"TRUE");
            }
            if !new && self.seen.contains(&description.hash) {
                out.truncate(start);
                return self.write_together(entry, out, row);
            }
            self.seen.push(description.hash);
            if !description.dropped {
                attribute_lines(description, values, &mut self.printer, out, row.as_deref_mut())?;
            }
        }
        out.push(b'\n');
        Ok(())
    }

    /// Writes the values of each attribute together, although the server sent them in several pieces. slapd 2.6.11 to
    /// 2.6.14 corrupt entries in which the values of an attribute are not together.
    fn write_together(&mut self, entry: &Entry<'_>, out: &mut Vec<u8>, mut row: Option<&mut RowValues>) -> Result<()> {
        let mut pieces = Vec::new();
        self.seen.clear();
        for attribute in entry.attributes.clone() {
            let (name, values) = attribute?;
            let description = self.descriptions.of(name)?;
            self.seen.push(description.hash);
            if !description.dropped {
                let first = self.seen.iter().position(|&hash| hash == description.hash);
                pieces.push((first, name, values));
            }
        }
        pieces.sort_by_key(|(first, ..)| *first);
        self.printer.begin();
        for (_, name, values) in pieces {
            let description = self.descriptions.of(name)?;
            for value in values {
                let value = value?;
                description.line(value, out);
                let Some(row) = row.as_deref_mut() else { continue };
                row.observe(description, value);
                if !description.ignored {
                    self.printer.add(hash_value(description.hash, value));
                }
            }
        }
        out.push(b'\n');
        Ok(())
    }
}

/// The values of an entry that its row needs.
#[derive(Debug, Default)]
struct RowValues {
    uuid: u128,
    csn: u128,
}

impl RowValues {
    #[inline]
    fn observe(&mut self, description: &Description, value: &[u8]) {
        match description.stamp {
            Some(IdentityAttributes::EntryUuid) => self.uuid = hash_uuid(value),
            Some(IdentityAttributes::EntryCsn) => self.csn = csn::pack(value),
            Some(IdentityAttributes::HasSubordinates) | None => {}
        }
    }
}

/// Writes an attribute whose values the server sent in one piece.
#[inline]
fn attribute_lines(
    description: &Description,
    values: Values<'_>,
    printer: &mut Fingerprinter,
    out: &mut Vec<u8>,
    mut row: Option<&mut RowValues>,
) -> Result<()> {
    let mut only = None;
    for (place, value) in values.enumerate() {
        let value = value?;
        let hash = description.record(place, value, out, row.is_some());
        let Some(row) = row.as_deref_mut() else { continue };
        row.observe(description, value);
        if place == 0 {
            only = Some(hash);
        } else if !description.ignored {
            only.take().into_iter().chain([hash]).for_each(|hash| printer.add(hash));
        }
    }
    if let Some(hash) = only.filter(|_| !description.ignored) {
        printer.add_single(hash);
    }
    Ok(())
}

/// Adds every entry to `digest`.
pub fn digest(channel: &mut Channel, query: &Search, digest: &mut Digest, counters: &Counters) -> Result<()> {
    let mut descriptions = Descriptions::new(Names::default(), digest.ignored().clone());
    let mut printer = Fingerprinter::default();
    search(channel, query, |entry| {
        printer.begin();
        for attribute in entry.attributes.clone() {
            let (name, values) = attribute?;
            let description = descriptions.of(name)?;
            for value in values {
                let value = value?;
                if !description.ignored {
                    printer.add(hash_value(description.hash, value));
                }
            }
        }
        digest.add_entry(&printer.end(entry.dn), entry.dn)?;
        counters.add(1, entry.length);
        Ok(())
    })
}

/// Receives and counts all entries without parsing their attributes, to measure only the speed of reading.
pub fn discard(channel: &mut Channel, query: &Search, counters: &Counters) -> Result<()> {
    search(channel, query, |entry| {
        counters.add(1, entry.length);
        Ok(())
    })
}

/// Maximum number of cached descriptions. No schema has as many; the limit keeps a hostile server from using up memory.
const MOST_CACHED: usize = 10_000;

/// A cache of attribute descriptions. Similar entries have the same descriptions in the same order.
#[derive(Debug)]
struct Descriptions {
    drop: Names,
    ignore: Names,
    cached: Vec<Description>,
    expected: usize,
    /// The greatest index in `cached` of the entry's descriptions so far, plus one.
    beyond: usize,
    /// Whether two cached descriptions may be spellings of one attribute.
    twins: bool,
}

impl Descriptions {
    fn new(drop: Names, ignore: Names) -> Self {
        Self { drop, ignore, cached: Vec::new(), expected: 0, beyond: 0, twins: false }
    }

    /// Looks up a description with its options. Returns an error if `text` is not a valid description.
    #[inline]
    fn of(&mut self, text: &[u8]) -> Result<&Description> {
        let at = match self.cached.get(self.expected) {
            Some(expected) if expected.text() == text => self.expected,
            _ => self.find(text)?,
        };
        self.expected = at + 1;
        Ok(&self.cached[at])
    }

    /// Looks up a description. Also returns whether its index is greater than those of the entry's earlier
    /// descriptions. If so, the entry has not had the description before.
    #[inline]
    fn next(&mut self, text: &[u8], first: bool) -> Result<(&Description, bool)> {
        if first {
            self.beyond = 0;
        }
        self.of(text)?;
        let at = self.expected - 1;
        let new = at >= self.beyond && !self.twins;
        self.beyond = self.beyond.max(at + 1);
        Ok((&self.cached[at], new))
    }

    fn find(&mut self, text: &[u8]) -> Result<usize> {
        if let Some(at) = self.cached.iter().position(|description| description.text() == text) {
            return Ok(at);
        }
        if self.cached.len() == MOST_CACHED {
            self.cached.clear();
            self.twins = true; // the indexes of the entry's earlier descriptions are no longer valid
        }
        let invalid = || Error::protocol(format!("\"{}\" is not an attribute description", text.escape_ascii()));
        let new = Description::learn(text, &self.drop, &self.ignore).ok_or_else(invalid)?;
        self.twins |= self.cached.iter().any(|description| description.hash == new.hash);
        self.cached.push(new);
        Ok(self.cached.len() - 1)
    }
}
