//! A whole tree as a table of fingerprints, to be compared with another.

use std::path::Path;

use common::{Counters, InFile, Result};
use ldif::tail::TruncationDetector;
use ldif::walk::each_record;
use ldif::{Input, Record};

use crate::fingerprint::{Checksum, Fingerprint, Fingerprinter};
use crate::names::Names;

/// 40 bytes an entry, and its DN's text.
#[derive(Debug, Default)]
pub struct Digest {
    pub(crate) rows: Vec<EntryDigest>,
    texts: Texts,
    checksum: Checksum,
    printer: Fingerprinter,
}

/// Halves of 128-bit hashes, since `u128` would be padded to 48 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EntryDigest {
    pub(crate) dn: [u64; 2],
    pub(crate) body: [u64; 2],
    text: u64,
}

impl Digest {
    pub fn new(ignore: Names) -> Self {
        Self { printer: Fingerprinter::new(ignore), ..Self::default() }
    }

    pub fn entries(&self) -> u64 {
        self.rows.len() as u64
    }

    pub fn checksum(&self) -> String {
        self.checksum.hex()
    }

    /// A file, which must not end in the middle.
    pub fn add_path(&mut self, path: &Path, counters: &Counters) -> Result<()> {
        let mut tail = TruncationDetector::default();
        each_record(Input::from_path(path, counters)?, counters, |record| {
            tail.record(record, b"");
            self.add(record, Some(&mut tail))
        })?;
        tail.end().in_file(Some(path))
    }

    /// A pipe; whether it ended as it should is known to who made it.
    pub fn add_stream(&mut self, input: Input<'_>, counters: &Counters) -> Result<()> {
        each_record(input, counters, |record| self.add(record, None)).map(drop)
    }

    fn add(
        &mut self,
        record: &Record<'_>,
        mut tail: Option<&mut TruncationDetector>,
    ) -> Result<()> {
        let print = self.printer.print_with(record, |field, _| {
            if let Some(tail) = &mut tail {
                tail.field(field);
            }
        })?;
        self.add_entry(&print, &record.entry()?.dn);
        Ok(())
    }

    /// `print` overlooks what this one does.
    pub fn add_entry(&mut self, print: &Fingerprint, dn: &[u8]) {
        self.checksum.add(print.combined());
        let text = self.texts.push(dn);
        self.rows.push(EntryDigest::new(print, text));
    }

    pub fn ignored(&self) -> &Names {
        self.printer.ignored()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.rows.iter().map(|row| self.dn(row))
    }

    pub(crate) fn dn(&self, row: &EntryDigest) -> &[u8] {
        self.texts.get(row.text)
    }
}

impl EntryDigest {
    fn new(print: &Fingerprint, text: u64) -> Self {
        Self { dn: halves(print.dn), body: halves(print.body), text }
    }

    pub(crate) fn print(&self) -> Fingerprint {
        Fingerprint { dn: whole(self.dn), body: whole(self.body) }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "cutting in two is the purpose")]
fn halves(number: u128) -> [u64; 2] {
    [(number >> 64) as u64, number as u64]
}

fn whole([high, low]: [u64; 2]) -> u128 {
    u128::from(high) << 64 | u128::from(low)
}

/// Texts in one piece of memory, each behind its length.
#[derive(Debug, Default)]
struct Texts(Vec<u8>);

impl Texts {
    fn push(&mut self, text: &[u8]) -> u64 {
        let at = self.0.len() as u64;
        self.0.extend_from_slice(&text.len().to_le_bytes()[..4]);
        self.0.extend_from_slice(text);
        at
    }

    fn get(&self, at: u64) -> &[u8] {
        let text = &self.0[usize::try_from(at).unwrap_or(usize::MAX)..];
        let (length, text) = text.split_at(4);
        let length = length.iter().rev().fold(0, |sum, &byte| (sum << 8) | usize::from(byte));
        &text[..length]
    }
}
