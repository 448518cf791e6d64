//! The record of a table: where its root is and what it holds.

use crate::layout::{read_u16, read_u32, read_u64};
use crate::reader::PageCheck;
use crate::{Error, Flags, Result};

/// The root of a table that holds nothing.
pub(crate) const NO_PAGE: u64 = u64::MAX;

/// LMDB's own limit (`CURSOR_STACK`).
const MAX_DEPTH: u16 = 32;

/// `MDB_db`: 48 bytes in the main table, in a meta page, or in the node of a key with many values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    /// Size of each value when all are of one size and stand in a tree of their own; in the meta
    /// page's record of free pages it is the page size.
    pub pad: u32,
    pub flags: Flags,
    /// Levels of pages, 0 for an empty table.
    pub depth: u16,
    pub branch_pages: u64,
    pub leaf_pages: u64,
    pub overflow_pages: u64,
    /// Number of values.
    pub entries: u64,
    pub root: u64,
}

impl Table {
    pub(crate) const SIZE: usize = 48;

    pub(crate) const fn empty(flags: Flags) -> Self {
        Self {
            pad: 0,
            flags,
            depth: 0,
            branch_pages: 0,
            leaf_pages: 0,
            overflow_pages: 0,
            entries: 0,
            root: NO_PAGE,
        }
    }

    /// Whoever follows the tree from its root asks this first.
    pub(crate) fn check_depth(&self) -> Result<()> {
        if self.depth > MAX_DEPTH || (self.depth == 0) != (self.root == NO_PAGE) {
            return Err(Error::corrupt(self.root, "a tree of an impossible depth"));
        }
        Ok(())
    }

    /// The record in a node's value.
    pub(crate) fn read(data: &[u8]) -> PageCheck<Self> {
        let right = data.len() == Self::SIZE;
        if right { Ok(Self::decode(data)) } else { Err("a table's record of another size") }
    }

    pub(crate) fn encode(&self) -> [u8; Self::SIZE] {
        let mut record = [0; Self::SIZE];
        record[..4].copy_from_slice(&self.pad.to_ne_bytes());
        record[4..6].copy_from_slice(&self.flags.bits().to_ne_bytes());
        record[6..8].copy_from_slice(&self.depth.to_ne_bytes());
        let counts =
            [self.branch_pages, self.leaf_pages, self.overflow_pages, self.entries, self.root];
        for (place, count) in record[8..].chunks_exact_mut(8).zip(counts) {
            place.copy_from_slice(&count.to_ne_bytes());
        }
        record
    }

    /// `record` has [`Self::SIZE`] bytes.
    pub(crate) fn decode(record: &[u8]) -> Self {
        Self {
            pad: read_u32(record, 0),
            flags: Flags::from_bits(read_u16(record, 4)),
            depth: read_u16(record, 6),
            branch_pages: read_u64(record, 8),
            leaf_pages: read_u64(record, 16),
            overflow_pages: read_u64(record, 24),
            entries: read_u64(record, 32),
            root: read_u64(record, 40),
        }
    }
}
