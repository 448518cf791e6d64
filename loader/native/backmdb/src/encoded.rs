//! The result of encoding one chunk: everything that the rest of the build needs of its entries.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::Error;

/// A DN's hash: 128 bits of xxh3 over the normalised RDN and the parent's hash.
pub type Hash = [u64; 2];

/// The hash of the root above the suffixes.
pub const ROOT: Hash = [0; 2];

/// An entry that passed its checks.
#[derive(Debug, Clone, Copy)]
pub struct EncodedEntry {
    /// Index of the record in the input, from 0; the entry of the empty DN has none.
    pub position: u32,
    pub line: u64,
    pub hash: Hash,
    /// Index into [`Encoded::parents`].
    pub parent: u32,
    /// End of the entry's value in [`Encoded::blobs`].
    pub blob_end: usize,
    /// End of the entry's two names, the normalised and the pretty RDN, in [`Encoded::names`].
    pub names_end: usize,
    /// Length of the normalised RDN in bytes.
    pub normal: u16,
    /// End of the entry's rows in [`Encoded::rows`].
    pub rows_end: usize,
    /// Whether this is the entry of a suffix.
    pub suffix: bool,
    /// The build generated this entry's entryUUID.
    pub generated_uuid: bool,
}

/// Identifies an entry that is read twice, and shows which copy is newer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EntryVersion {
    /// entryUUID; 0 if the entry has none.
    pub uuid: u128,
    /// The entryCSN of the input as a number; 0 if the entry has none.
    pub csn: u128,
    /// The entryCSN is newer than the claimed contextCSN.
    pub newer: bool,
}

/// A parent of entries in a chunk.
#[derive(Debug, Clone)]
pub struct Parent {
    pub hash: Hash,
    /// The parent's DN as its first child in this chunk spells it.
    pub text: Box<[u8]>,
    /// Position of the parent's first child in this chunk.
    pub child: u32,
}

/// Gives each parent of a chunk's entries an index.
#[derive(Debug, Default)]
pub struct ParentNumbers {
    indexes: FxHashMap<Hash, u32>,
    last: Option<(Hash, u32)>,
}

impl ParentNumbers {
    /// Begins a new chunk.
    pub fn clear(&mut self) {
        self.indexes.clear();
        self.last = None;
    }

    /// Returns the index of a parent in `all`; adds the parent if it is new.
    pub fn index(&mut self, hash: Hash, text: &[u8], child: u32, all: &mut Vec<Parent>) -> u32 {
        if let Some((_, index)) = self.last.filter(|(last, _)| *last == hash) {
            return index;
        }
        let index = *self.indexes.entry(hash).or_insert_with(|| {
            all.push(Parent { hash, text: text.into(), child });
            u32::try_from(all.len() - 1).unwrap_or(u32::MAX)
        });
        self.last = Some((hash, index));
        index
    }
}

/// An entry that will not be in the database.
pub type Rejection = ldif::rejects::Rejection<u32>;

/// A row for id2v.
#[derive(Debug, Clone)]
pub struct MultivalRecord {
    pub column: u16,
    pub record: Vec<u8>,
}

/// Evidence that a file was truncated between two lines (see `ldif::tail`).
#[derive(Debug, Clone, Default)]
pub struct TruncationChecks {
    /// Number of records, without the last record of the file.
    pub records: u64,
    /// Number of these records with entryCSN, and number of these records with modifyTimestamp.
    pub stamped: [u64; 2],
    /// The last record of the file, if it is in this chunk and no blank line follows it.
    pub last: Option<LastRecord>,
    /// The error for a file that ends within its last record.
    pub cut: Option<Error>,
}

#[derive(Debug, Clone, Default)]
pub struct LastRecord {
    pub line: u64,
    pub dn: Vec<u8>,
    /// Whether the record has entryCSN, and whether it has modifyTimestamp.
    pub stamped: [bool; 2],
    /// The record has no attributes.
    pub empty: bool,
}

#[derive(Debug, Default)]
pub struct Encoded {
    pub number: u64,
    pub path: Option<Arc<PathBuf>>,
    /// Records in the chunk, rejected ones included.
    pub records: u64,
    pub bytes: u64,
    pub kept: Vec<EncodedEntry>,
    /// A key for each entry of `kept`; empty unless the build is from a live server.
    pub keys: Vec<EntryVersion>,
    pub blobs: Vec<u8>,
    pub names: Vec<u8>,
    pub parents: Vec<Parent>,
    pub rows: Vec<MultivalRecord>,
    /// The value of the entry of the empty DN.
    pub root: Option<Vec<u8>>,
    /// Number of records without a position: 1 for the entry of the empty DN.
    pub unplaced: u64,
    pub rejections: Vec<Rejection>,
    /// Server ID -> greatest entryCSN, normalised.
    pub newest: BTreeMap<u16, Vec<u8>>,
    pub marks: TruncationChecks,
    /// The input ends with this chunk.
    pub ends_input: bool,
}

impl Encoded {
    /// Removes the contents, but keeps the allocated memory.
    pub fn clear(&mut self) {
        self.kept.clear();
        self.keys.clear();
        self.blobs.clear();
        self.names.clear();
        self.parents.clear();
        self.rows.clear();
        (self.root, self.unplaced) = (None, 0);
        self.rejections.clear();
        self.newest.clear();
        self.marks = TruncationChecks::default();
    }
}
