//! Computes how completing entries changes their tree's checksum: the input's plus this change is the database's.

use ldif::Record;
use tree::Names;
use tree::fingerprint::{Fingerprint, Fingerprinter, hash_text, hash_value};

use crate::Result;
use crate::descriptions::COMPUTED;
use crate::draft::EntryLines;
use crate::lookup::Lookup;

/// One worker's state. It uses the record and the attributes added to it, not the stored value, so that a comparison
/// detects values that were lost on the way.
pub struct Account {
    as_read: Fingerprinter,
    as_kept: Fingerprinter,
    lower: Vec<u8>,
}

impl Account {
    /// `skips`: attributes that slapd computes are left out.
    pub fn new(skips: bool) -> Self {
        let left_out = if skips { Names::new(COMPUTED) } else { Names::default() };
        Self { as_read: Fingerprinter::default(), as_kept: Fingerprinter::new(left_out), lower: Vec::new() }
    }

    /// Returns the sum over all values, which does not depend on the order of attributes.
    pub fn sum(&mut self, draft: &EntryLines, lookup: &Lookup<'_>) -> u128 {
        let mut sum = 0_u128;
        for one in &draft.attributes {
            let description = hash_text(lookup.get(one.column).text.as_bytes(), &mut self.lower);
            for value in draft.values_of(one) {
                sum = sum.wrapping_add(hash_value(description, value));
            }
        }
        sum
    }

    /// Returns the entry's contribution to the checksum minus its record's. `added`: to the sum of its values.
    pub fn difference(&mut self, record: &Record<'_>, added: u128) -> Result<u128> {
        let (read, kept) = (self.as_read.print(record)?, self.as_kept.print(record)?);
        let made = Fingerprint { body: kept.body.wrapping_add(added), ..kept };
        Ok(made.combined().wrapping_sub(read.combined()))
    }
}
