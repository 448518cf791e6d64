//! Keys of indexes (slapd-mdb(5), `index`), as back-mdb stores them.

mod hash;
mod number;
mod phonetic;
mod substrings;

use std::fmt;

pub use hash::{Seed, Width};
pub use number::{integer, time, time_of_2_4};
pub use phonetic::phonetic;
pub use substrings::Substrings;

use crate::order;

/// A stored index key of at most 8 bytes. Keys have the order of LMDB: by bytes, and a key precedes longer keys that
/// begin with it.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The bytes of the key, followed by zeros.
    bytes: [u8; 8],
    len: u8,
}

impl Key {
    /// The key of presence indexes: four zero bytes, even with hashes of 64 bits.
    pub const PRESENCE: Self = Self { bytes: [0; 8], len: 4 };

    /// # Panics
    /// If the key has more than 8 bytes; no kind of index has such keys.
    pub fn new(key: &[u8]) -> Self {
        let mut bytes = [0; 8];
        bytes[..key.len()].copy_from_slice(key);
        #[expect(clippy::cast_possible_truncation)] // at most 8
        Self { bytes, len: key.len() as u8 }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    #[expect(clippy::len_without_is_empty)] // no key is empty
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Returns the bytes, followed by zeros, as a big-endian number.
    pub fn bits(&self) -> u64 {
        u64::from_be_bytes(self.bytes)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

/// Returns the part of a Name and Optional UID value that is hashed for keys: the value without `#'bits'B` at its end.
pub fn name_uid_part(value: &[u8]) -> &[u8] {
    order::split(value).0
}
