//! Rows: the facts about an entry that `arrange` needs, in a fixed size. They are stored in a file beside the LDIF, so
//! that duplicates and parents are found without another read of all records.

use std::path::{Path, PathBuf};

use common::Result;
use ldif::Record;

use crate::csn;
use crate::fingerprint::{Fingerprinter, hash};

/// Bytes of a row, little-endian: five numbers of 16 bytes, the length, and 4 spare bytes.
pub const SIZE: usize = 88;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryRecord {
    /// Hash of the normalized DN.
    pub dn: u128,
    /// Hash of the parent's normalized DN.
    pub parent: u128,
    /// Hash of the entryUUID. 0 if there is none; such an entry is never a duplicate by entryUUID.
    pub uuid: u128,
    /// The packed entryCSN. 0 if there is none; such an entry is older than all others.
    pub csn: u128,
    /// The entry's contribution to the checksum of the tree, computed without contextCSN.
    pub print: u128,
    /// Length of the record in LDIF, in bytes.
    pub length: u32,
}

/// Returns the path of the row file that belongs to an LDIF file.
pub fn row_file_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".rows");
    PathBuf::from(name)
}

impl EntryRecord {
    /// Computes the row of a record; `printer` must ignore contextCSN.
    pub fn of(record: &Record<'_>, printer: &mut Fingerprinter) -> Result<Self> {
        let (mut uuid, mut csn) = (0, 0);
        let mut failed = None;
        let print = printer.print_with(record, |field, _| {
            let (number, convert): (_, fn(&[u8]) -> u128) = match () {
                () if field.is("entryUUID") => (&mut uuid, hash_uuid),
                () if field.is("entryCSN") => (&mut csn, csn::pack),
                () => return,
            };
            match field.value() {
                Ok(value) => *number = convert(&value),
                Err(error) => failed = Some(error),
            }
        })?;
        failed.map_or(Ok(()), Err)?;
        let parent = hash(printer.name().parent());
        let length = u32::try_from(record.bytes.len()).unwrap_or(u32::MAX);
        Ok(Self { dn: print.dn, parent, uuid, csn, print: print.combined(), length })
    }

    pub fn to_bytes(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        let numbers = [self.dn, self.parent, self.uuid, self.csn, self.print];
        for (target, number) in bytes.chunks_exact_mut(16).zip(numbers) {
            target.copy_from_slice(&number.to_le_bytes());
        }
        bytes[80..84].copy_from_slice(&self.length.to_le_bytes());
        bytes
    }

    /// Decodes a row of `SIZE` bytes.
    #[inline]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let number = |at: usize| bytes[at..].first_chunk().copied().map(u128::from_le_bytes).unwrap_or_default();
        let length = bytes[80..].first_chunk().copied().map(u32::from_le_bytes).unwrap_or_default();
        Self { dn: number(0), parent: number(16), uuid: number(32), csn: number(48), print: number(64), length }
    }
}

/// Hashes an entryUUID, in lower case.
pub fn hash_uuid(value: &[u8]) -> u128 {
    let mut lower = [0; 36];
    match lower.get_mut(..value.len()) {
        Some(lower) => {
            lower.copy_from_slice(value);
            lower.make_ascii_lowercase();
            hash(lower)
        }
        None => hash(&value.to_ascii_lowercase()),
    }
}
