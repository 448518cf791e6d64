//! Represents a record by two hashes: of its DN, and of its content.
//!
//! xxh3 avoids accidental collisions (with 10^9 entries their probability is 10^-21), but not deliberate ones.

use common::Result;
use ldif::{Field, Record};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128, xxh3_128_with_seed};

use crate::name::ParsedDn;
use crate::names::Names;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint {
    /// Hash of the normalized DN.
    pub dn: u128,
    /// Sum of the hashes of all distinct pairs (attribute description, value); it does not depend on their order.
    pub body: u128,
}

impl Fingerprint {
    /// Returns the entry's contribution to the checksum of a tree.
    pub fn combined(&self) -> u128 {
        hash([self.dn.to_le_bytes(), self.body.to_le_bytes()].as_flattened())
    }
}

/// Sum of fingerprints modulo 2^128. It does not depend on the order, and sums of parts can be added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Checksum(u128);

impl Checksum {
    /// Adds the checksum of a part of the tree.
    pub fn join(&mut self, part: Self) {
        self.add(part.0);
    }

    /// Adds an entry; `print` is its [`Fingerprint::combined`].
    pub fn add(&mut self, print: u128) {
        self.0 = self.0.wrapping_add(print);
    }

    pub fn hex(self) -> String {
        format!("{:032x}", self.0)
    }
}

/// The totals of a part of a tree: of a subtree, or of files of an export.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub entries: u64,
    pub checksum: Checksum,
}

impl Totals {
    /// Adds an entry; `print` is its [`Fingerprint::combined`].
    pub fn add(&mut self, print: u128) {
        self.entries += 1;
        self.checksum.add(print);
    }

    pub fn join(&mut self, other: Self) {
        self.entries += other.entries;
        self.checksum.join(other.checksum);
    }
}

/// Computes fingerprints, and reuses its buffers from entry to entry.
#[derive(Debug)]
pub struct Fingerprinter {
    ignore: Names,
    name: ParsedDn,
    lower: Vec<u8>,
    values: Vec<u128>,
    sum: u128,
    /// Sum of the values that need no check for duplicates.
    singles: u128,
    /// A bitmap indexed by low bits of the hashed values so far: a value whose bit is already set may be a duplicate.
    met: [u64; WORDS],
    again: bool,
}

const WORDS: usize = 64;

impl Default for Fingerprinter {
    fn default() -> Self {
        Self::new(Names::default())
    }
}

impl Fingerprinter {
    pub fn new(ignore: Names) -> Self {
        Self {
            ignore,
            name: ParsedDn::default(),
            lower: Vec::new(),
            values: Vec::new(),
            sum: 0,
            singles: 0,
            met: [0; WORDS],
            again: false,
        }
    }

    pub fn ignored(&self) -> &Names {
        &self.ignore
    }

    pub fn print(&mut self, record: &Record<'_>) -> Result<Fingerprint> {
        self.print_with(record, |_, _| ())
    }

    /// Returns the fingerprint. Calls `see` with every field and the hash of its description in lower case.
    pub fn print_with(&mut self, record: &Record<'_>, mut see: impl FnMut(&Field<'_>, u64)) -> Result<Fingerprint> {
        let entry = record.entry()?;
        self.begin();
        for field in entry.fields {
            let field = field?;
            let description = hash_description(&field, &mut self.lower);
            see(&field, description);
            if !self.ignore.has_field(&field) {
                self.add(hash_value(description, &field.value()?));
            }
        }
        Ok(self.end(&entry.dn))
    }

    /// Begins an entry that is not a record. The caller then calls `add` for every value that counts, and `end`.
    pub fn begin(&mut self) {
        self.values.clear();
        self.met = [0; WORDS];
        (self.sum, self.singles, self.again) = (0, 0, false);
    }

    /// Adds a value of the entry; `value` is the result of [`hash_value`].
    #[inline]
    pub fn add(&mut self, value: u128) {
        let low = value.to_le_bytes();
        let (word, bit) = (usize::from(low[0]) % WORDS, 1 << (low[1] % 64));
        self.again |= self.met[word] & bit != 0;
        self.met[word] |= bit;
        self.sum = self.sum.wrapping_add(value);
        self.values.push(value);
    }

    /// Adds a value that is the only value of its attribute description.
    #[inline]
    pub fn add_single(&mut self, value: u128) {
        self.singles = self.singles.wrapping_add(value);
    }

    pub fn end(&mut self, dn: &[u8]) -> Fingerprint {
        if self.again {
            self.values.sort_unstable();
            self.values.dedup();
            self.sum = self.values.iter().fold(0, |sum, value| sum.wrapping_add(*value));
        }
        self.name.set(dn);
        Fingerprint { dn: hash(self.name.key()), body: self.sum.wrapping_add(self.singles) }
    }

    /// Returns the DN of the last record.
    pub fn name(&self) -> &ParsedDn {
        &self.name
    }
}

/// Hashes a value; `description` is the result of [`hash_text`].
pub fn hash_value(description: u64, value: &[u8]) -> u128 {
    xxh3_128_with_seed(value, description)
}

/// Hashes the attribute description, with its options, in lower case. `lower` is a buffer.
pub fn hash_description(field: &Field<'_>, lower: &mut Vec<u8>) -> u64 {
    hash_text(field.description(), lower)
}

/// Hashes a description that is not in a record. `lower` is a buffer.
pub fn hash_text(description: &[u8], lower: &mut Vec<u8>) -> u64 {
    lower.clear();
    lower.extend_from_slice(description);
    lower.make_ascii_lowercase();
    xxh3_64(lower)
}

pub fn hash(bytes: &[u8]) -> u128 {
    xxh3_128(bytes)
}
