//! Where things stand in a page: all that differs between LMDB's file formats.
//!
//! Facts from libraries/liblmdb/mdb.c (`MDB_page`, `MDB_node`, `mdb_env_open2`).

use crate::{Error, ErrorKind, Result};

/// Longest key, and longest value of a table with DUPSORT (`MDB_MAXKEYSIZE`).
pub const MAX_KEY: usize = 511;
/// Longest value: its length is stored in 32 bits.
pub(crate) const MAX_VALUE: usize = u32::MAX as usize;
/// Pages 0 and 1 are meta pages.
pub(crate) const META_PAGES: u64 = 2;

/// Flags of a page header.
pub(crate) mod page {
    pub const BRANCH: u16 = 0x01;
    pub const LEAF: u16 = 0x02;
    pub const OVERFLOW: u16 = 0x04;
    pub const META: u16 = 0x08;
    pub const DIRTY: u16 = 0x10;
    pub const LEAF2: u16 = 0x20;
    pub const SUBP: u16 = 0x40;
}

/// Flags of a node.
pub(crate) mod node {
    /// The value is on overflow pages, the node has the number of the first.
    pub const BIGDATA: u16 = 0x01;
    /// The value is a table's record.
    pub const SUBDATA: u16 = 0x02;
    /// The value is a sub-page of values, or with SUBDATA a table of them.
    pub const DUPDATA: u16 = 0x04;
}

/// The file formats that can be written and read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Data version 1: LMDB 0.9, OpenLDAP 2.4 to 2.6.
    #[default]
    V1,
}

/// A format with a page size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    pub(crate) page_size: usize,
    /// Bytes of a page before its pointers, values or overflow data.
    pub(crate) page_header: usize,
    /// Bytes of a node before its key.
    pub(crate) node_header: usize,
    /// Largest node that stays in its leaf: any two fit on a page.
    pub(crate) max_node: usize,
    /// Data version, as meta pages have it.
    pub(crate) version: u32,
}

/// The fields of a page header but for its number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    /// Value size of a LEAF2 page.
    pub pad: u16,
    pub flags: u16,
    pub lower: u16,
    pub upper: u16,
}

impl Layout {
    /// `page_size`: a power of two from 4096 to 32768 bytes.
    pub fn new(format: Format, page_size: u32) -> Result<Self> {
        if !page_size.is_power_of_two() || !(4096..=32768).contains(&page_size) {
            let message = format!("page size {page_size} is no power of two from 4096 to 32768");
            return Err(Error::new(ErrorKind::Misuse, message));
        }
        let page_size = page_size as usize;
        let (page_header, version) = match format {
            Format::V1 => (16, 1),
        };
        let max_node = (((page_size - page_header) / 2) & !1) - 2;
        Ok(Self { page_size, page_header, node_header: 8, max_node, version })
    }

    /// In bytes.
    pub const fn page_size(&self) -> usize {
        self.page_size
    }

    /// Overflow pages for a value of `size` bytes.
    pub(crate) const fn overflow_pages(&self, size: usize) -> u64 {
        ((self.page_header + size - 1) / self.page_size + 1) as u64
    }

    pub(crate) fn put_number(page: &mut [u8], number: u64) {
        page[..8].copy_from_slice(&number.to_ne_bytes());
    }

    pub(crate) fn put_header(page: &mut [u8], header: Header) {
        let fields = [header.pad, header.flags, header.lower, header.upper];
        for (place, field) in page[8..16].chunks_exact_mut(2).zip(fields) {
            place.copy_from_slice(&field.to_ne_bytes());
        }
    }

    pub(crate) fn overflow_header(number: u64, pages: u32) -> [u8; 16] {
        let mut header = [0; 16];
        Self::put_number(&mut header, number);
        header[10..12].copy_from_slice(&page::OVERFLOW.to_ne_bytes());
        header[12..].copy_from_slice(&pages.to_ne_bytes());
        header
    }

    pub(crate) fn number(page: &[u8]) -> u64 {
        read_u64(page, 0)
    }

    pub(crate) fn header(page: &[u8]) -> Header {
        Header {
            pad: read_u16(page, 8),
            flags: read_u16(page, 10),
            lower: read_u16(page, 12),
            upper: read_u16(page, 14),
        }
    }

    pub(crate) fn overflow_count(page: &[u8]) -> u32 {
        read_u32(page, 12)
    }

    /// The header of a leaf's node: the value's size in 32 bits, low half first, flags, key size.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // Callers hold to MAX_VALUE and MAX_KEY.
    pub(crate) fn leaf_node(size: usize, flags: u16, key: usize) -> [u8; 8] {
        Self::halves([size as u16, (size >> 16) as u16, flags, key as u16])
    }

    /// The header of a branch's node: the child's number in 48 bits, low 16 first, and key size.
    #[inline]
    #[allow(clippy::cast_possible_truncation)]
    pub(crate) fn branch_node(child: u64, key: usize) -> [u8; 8] {
        Self::halves([child as u16, (child >> 16) as u16, (child >> 32) as u16, key as u16])
    }

    #[inline]
    fn halves(fields: [u16; 4]) -> [u8; 8] {
        let mut header = [0; 8];
        for (place, field) in header.chunks_exact_mut(2).zip(fields) {
            place.copy_from_slice(&field.to_ne_bytes());
        }
        header
    }

    /// The name of a table as it stands in the main table.
    pub(crate) fn stored_name(&self, name: &[u8]) -> Vec<u8> {
        debug_assert_eq!(self.version, 1);
        name.to_vec()
    }

    /// The name of a table from its key in the main table.
    pub(crate) fn name<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        debug_assert_eq!(self.version, 1);
        key
    }
}

/// `size` made even: nodes stand on even offsets.
#[inline]
pub(crate) const fn even(size: usize) -> usize {
    size + (size & 1)
}

#[inline]
pub(crate) fn read_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

#[inline]
pub(crate) fn read_u32(bytes: &[u8], at: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    u32::from_ne_bytes(field)
}

#[inline]
pub(crate) fn read_u64(bytes: &[u8], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(field)
}
