//! Computes how the attributes that the build adds change the checksum of the tree. The checksum of the database must
//! be that of the input plus this change.

use ldif::Record;
use tree::Names;
use tree::fingerprint::{Fingerprint, Fingerprinter, hash_text, hash_value};

use crate::Result;
use crate::descriptions::COMPUTED;
use crate::draft::EntryLines;
use crate::lookup::Lookup;

/// The state of one worker. The change is computed from records and added attributes, not from stored values. So a
/// comparison of the checksums detects values that were lost before they were stored.
pub struct Account {
    as_read: Fingerprinter,
    as_kept: Fingerprinter,
    lower: Vec<u8>,
}

impl Account {
    /// `skips_computed`: attributes that slapd computes are left out.
    pub fn new(skips_computed: bool) -> Self {
        let left_out = if skips_computed { Names::new(COMPUTED) } else { Names::default() };
        Self { as_read: Fingerprinter::default(), as_kept: Fingerprinter::new(left_out), lower: Vec::new() }
    }

    /// Returns the sum of the hashes of all values, which does not depend on their order.
    pub fn sum(&mut self, draft: &EntryLines, lookup: &Lookup<'_>) -> u128 {
        let mut sum = 0_u128;
        for attribute in &draft.attributes {
            let description = hash_text(lookup.get(attribute.column).text.as_bytes(), &mut self.lower);
            for value in draft.values_of(attribute) {
                sum = sum.wrapping_add(hash_value(description, value));
            }
        }
        sum
    }

    /// Returns the checksum of the completed entry minus that of its record. `added`: the sum of the hashes of the
    /// added values.
    pub fn difference(&mut self, record: &Record<'_>, added: u128) -> Result<u128> {
        let (read, kept) = (self.as_read.print(record)?, self.as_kept.print(record)?);
        let completed = Fingerprint { body: kept.body.wrapping_add(added), ..kept };
        Ok(completed.combined().wrapping_sub(read.combined()))
    }
}
