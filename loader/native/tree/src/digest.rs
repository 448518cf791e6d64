//! A whole tree as a table of fingerprints, to be compared with another.

use std::env::temp_dir;
use std::path::Path;

use common::{Counters, InFile, Result};
use extsort::Buckets;
use ldif::tail::TruncationDetector;
use ldif::walk::each_record;
use ldif::{Input, Record};

use crate::fingerprint::{Checksum, Fingerprint, Fingerprinter};
use crate::name::rdns;
use crate::names::Names;

/// Rows by the top bits of the hash of their DN. Of 10^9 entries, a bucket has 170 MB.
pub(crate) const BUCKETS: usize = 1 << BUCKET_BITS;
const BUCKET_BITS: u32 = 9;
const HASHES: usize = 32;

/// The rows of all entries, in memory or in a temporary file: 36 bytes an entry, and its DN's text.
#[derive(Debug)]
pub struct Digest {
    rows: Buckets,
    entries: u64,
    /// RDNs of the shortest DN.
    base: usize,
    checksum: Checksum,
    printer: Fingerprinter,
}

/// What is known of an entry: hashes of its DN and of its values, and the text of its DN.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EntryDigest<'a> {
    pub(crate) dn: u128,
    pub(crate) body: u128,
    pub(crate) text: &'a [u8],
}

impl Digest {
    /// All in memory.
    pub fn new(ignore: Names) -> Self {
        Self::within(usize::MAX, &temp_dir(), ignore, &Counters::default())
    }

    /// `memory` in bytes; `scratch` is the directory of the temporary file.
    pub fn within(memory: usize, scratch: &Path, ignore: Names, counters: &Counters) -> Self {
        Self {
            rows: Buckets::new(BUCKETS, memory, scratch, counters.flag()),
            entries: 0,
            base: usize::MAX,
            checksum: Checksum::default(),
            printer: Fingerprinter::new(ignore),
        }
    }

    pub fn entries(&self) -> u64 {
        self.entries
    }

    pub(crate) fn base(&self) -> usize {
        self.base
    }

    pub(crate) fn bucket(&self, number: usize) -> Result<Vec<u8>> {
        self.rows.read(number)
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
        self.add_entry(&print, &record.entry()?.dn)
    }

    /// `print` overlooks what this one does.
    pub fn add_entry(&mut self, print: &Fingerprint, dn: &[u8]) -> Result<()> {
        self.checksum.add(print.combined());
        self.entries += 1;
        self.base = rdns(dn).take(self.base).count();
        let bucket = (print.dn >> (u128::BITS - BUCKET_BITS)) as usize;
        self.rows.append(bucket, &[&print.dn.to_le_bytes(), &print.body.to_le_bytes(), dn])
    }

    pub fn ignored(&self) -> &Names {
        self.printer.ignored()
    }
}

impl<'a> EntryDigest<'a> {
    /// A row, as it was appended.
    pub(crate) fn from_bytes(row: &'a [u8]) -> Self {
        let (hashes, text) = row.split_at(HASHES);
        let (dn, body) = hashes.split_at(HASHES / 2);
        let hash = |bytes: &[u8]| u128::from_le_bytes(bytes.try_into().unwrap_or_default());
        Self { dn: hash(dn), body: hash(body), text }
    }

    pub(crate) fn print(&self) -> Fingerprint {
        Fingerprint { dn: self.dn, body: self.body }
    }
}
