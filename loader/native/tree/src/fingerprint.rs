//! One record as two numbers: who it is, and what it holds.
//!
//! xxh3 keeps accidents apart (at 10^9 entries the chance of any two alike is 10^-21); it does not
//! withstand someone who builds collisions on purpose.

use ldif::{Field, Record, Result};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128, xxh3_128_with_seed};

use crate::name::Name;
use crate::names::Names;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint {
    /// Hash of the DN's key.
    pub dn: u128,
    /// Hash of the set of (attribute description, value), in whatever order they stand.
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
    pub fn add(&mut self, print: &Fingerprint) {
        self.0 = self.0.wrapping_add(print.combined());
    }

    pub fn hex(self) -> String {
        format!("{:032x}", self.0)
    }
}

/// Takes fingerprints; keeps its buffers from record to record.
#[derive(Debug, Default)]
pub struct Printer {
    ignore: Names,
    name: Name,
    lower: Vec<u8>,
    values: Vec<u128>,
    bytes: Vec<u8>,
}

impl Printer {
    pub fn new(ignore: Names) -> Self {
        Self { ignore, ..Self::default() }
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
        self.values.clear();
        for field in entry.fields {
            let field = field?;
            let description = hash_description(&field, &mut self.lower);
            see(&field, description);
            if !self.ignore.hold(&field) {
                self.values.push(xxh3_128_with_seed(&field.value()?, description));
            }
        }
        self.values.sort_unstable();
        self.values.dedup();
        self.name.set(&entry.dn);
        Ok(Fingerprint { dn: hash(self.name.key()), body: self.hash_values() })
    }

    /// Of the record printed last.
    pub fn name(&self) -> &Name {
        &self.name
    }

    fn hash_values(&mut self) -> u128 {
        self.bytes.clear();
        self.bytes.extend(self.values.iter().flat_map(|value| value.to_le_bytes()));
        hash(&self.bytes)
    }
}

/// Hash of the attribute description, options included, in lower case. `lower` is scratch.
pub fn hash_description(field: &Field<'_>, lower: &mut Vec<u8>) -> u64 {
    lower.clear();
    lower.extend_from_slice(field.description());
    lower.make_ascii_lowercase();
    xxh3_64(lower)
}

pub fn hash(bytes: &[u8]) -> u128 {
    xxh3_128(bytes)
}
