//! One record as two numbers: who it is, and what it holds.
//!
//! xxh3 keeps accidents apart (at 10^9 entries the chance of any two alike is 10^-21); it does not
//! withstand someone who builds collisions on purpose.

use common::Result;
use ldif::{Field, Record};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128, xxh3_128_with_seed};

use crate::name::ParsedDn;
use crate::names::Names;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint {
    /// Hash of the DN's key.
    pub dn: u128,
    /// Sum of the hashes of all different (attribute description, value), so that their order does not count.
    pub body: u128,
}

impl Fingerprint {
    /// What this entry adds to the order-free checksum of a tree.
    pub fn combined(&self) -> u128 {
        hash([self.dn.to_le_bytes(), self.body.to_le_bytes()].as_flattened())
    }
}

/// Sum modulo 2^128: the same whatever the order, and sums of parts add up to the sum of all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Checksum(u128);

impl Checksum {
    /// Adds what a part of the tree has.
    pub fn join(&mut self, part: Self) {
        self.add(part.0);
    }

    /// `print`: [`Fingerprint::combined`].
    pub fn add(&mut self, print: u128) {
        self.0 = self.0.wrapping_add(print);
    }

    pub fn hex(self) -> String {
        format!("{:032x}", self.0)
    }
}

/// What a part of a tree has: a subtree, or files of an export.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub entries: u64,
    pub checksum: Checksum,
}

impl Totals {
    /// `print`: [`Fingerprint::combined`] of one more entry.
    pub fn add(&mut self, print: u128) {
        self.entries += 1;
        self.checksum.add(print);
    }

    pub fn join(&mut self, other: Self) {
        self.entries += other.entries;
        self.checksum.join(other.checksum);
    }
}

/// Takes fingerprints; keeps its buffers from record to record.
#[derive(Debug)]
pub struct Fingerprinter {
    ignore: Names,
    name: ParsedDn,
    lower: Vec<u8>,
    values: Vec<u128>,
    sum: u128,
    /// Of values that need not be held against others.
    singles: u128,
    /// Low bits of the values so far: a bit that is met again may be a value that is there already.
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

    /// The same, showing on the way every field with the hash of its description in lower case.
    pub fn print_with(
        &mut self,
        record: &Record<'_>,
        mut see: impl FnMut(&Field<'_>, u64),
    ) -> Result<Fingerprint> {
        let entry = record.entry()?;
        self.begin();
        for field in entry.fields {
            let field = field?;
            let description = hash_description(&field, &mut self.lower);
            see(&field, description);
            if !self.ignore.hold(&field) {
                self.add(hash_value(description, &field.value()?));
            }
        }
        Ok(self.end(&entry.dn))
    }

    /// For entries that are no records: `begin`, `add` the hash of every value that counts, `end`.
    pub fn begin(&mut self) {
        self.values.clear();
        self.met = [0; WORDS];
        (self.sum, self.singles, self.again) = (0, 0, false);
    }

    /// `value`: as [`hash_value`] has it.
    #[inline]
    pub fn add(&mut self, value: u128) {
        let low = value.to_le_bytes();
        let (word, bit) = (usize::from(low[0]) % WORDS, 1 << (low[1] % 64));
        self.again |= self.met[word] & bit != 0;
        self.met[word] |= bit;
        self.sum = self.sum.wrapping_add(value);
        self.values.push(value);
    }

    /// The same of a value that is known to be the only one of its description.
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

    /// Of the record printed last.
    pub fn name(&self) -> &ParsedDn {
        &self.name
    }
}

/// `description`: as [`hash_text`] has it.
pub fn hash_value(description: u64, value: &[u8]) -> u128 {
    xxh3_128_with_seed(value, description)
}

/// Hash of the attribute description, options included, in lower case. `lower` is scratch.
pub fn hash_description(field: &Field<'_>, lower: &mut Vec<u8>) -> u64 {
    hash_text(field.description(), lower)
}

/// The same of a description that stands in no record.
pub fn hash_text(description: &[u8], lower: &mut Vec<u8>) -> u64 {
    lower.clear();
    lower.extend_from_slice(description);
    lower.make_ascii_lowercase();
    xxh3_64(lower)
}

pub fn hash(bytes: &[u8]) -> u128 {
    xxh3_128(bytes)
}
