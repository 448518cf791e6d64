//! What completing entries does to the checksum of their tree: that of the database is the one of what was read and this.

use ldif::Record;
use tree::Names;
use tree::fingerprint::{Fingerprint, Fingerprinter, hash_text, hash_value};

use crate::Result;
use crate::descriptions::COMPUTED;
use crate::draft::EntryLines;
use crate::lookup::Lookup;

/// Of one worker. Works from the record and from what is added to it, not from what is stored, so that values that get lost
/// on the way are missed in the comparison.
#[derive(Debug)]
pub struct Account {
    as_read: Fingerprinter,
    as_kept: Fingerprinter,
    lower: Vec<u8>,
}

impl Account {
    /// `skips`: the attributes that slapd works out are left out.
    pub fn new(skips: bool) -> Self {
        let left_out = if skips { Names::new(COMPUTED) } else { Names::default() };
        Self {
            as_read: Fingerprinter::default(),
            as_kept: Fingerprinter::new(left_out),
            lower: Vec::new(),
        }
    }

    /// Of all values, so that the order of attributes does not count.
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

    /// What the entry adds to the checksum of its tree, less what its record would. `added`: to the sum of its values.
    pub fn difference(&mut self, record: &Record<'_>, added: u128) -> Result<u128> {
        let (read, kept) = (self.as_read.print(record)?, self.as_kept.print(record)?);
        let made = Fingerprint { body: kept.body.wrapping_add(added), ..kept };
        Ok(made.combined().wrapping_sub(read.combined()))
    }
}
