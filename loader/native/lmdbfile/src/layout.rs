//! Offsets within a page: everything that differs between LMDB's file formats.
//!
//! Source: libraries/liblmdb/mdb.c (`MDB_page`, `MDB_node`, `mdb_env_open2`).

use crate::reader::PageCheck;
use crate::{Error, ErrorKind, Options, Result, Table};

/// Longest value: its length is stored in 32 bits.
pub(crate) const MAX_VALUE: usize = u32::MAX as usize;
/// Pages 0 and 1 are meta pages.
pub(crate) const META_PAGES: u64 = 2;
/// Bytes of a node before its key.
pub(crate) const NODE_HEADER: usize = 8;
/// The longest page header of both formats.
pub(crate) const MAX_PAGE_HEADER: usize = 24;

/// Flags of a page header.
pub(crate) mod page {
    pub const BRANCH: u16 = 0x01;
    pub const LEAF: u16 = 0x02;
    pub const OVERFLOW: u16 = 0x04;
    pub const META: u16 = 0x08;
    /// Only in format 1.
    pub const DIRTY: u16 = 0x10;
    pub const LEAF2: u16 = 0x20;
    pub const SUBP: u16 = 0x40;
    /// The flags that decide the kind of a page.
    pub const KINDS: u16 = BRANCH | LEAF | OVERFLOW | META | LEAF2;
}

/// Flags of a node.
pub(crate) mod node {
    /// The value is on overflow pages, and the node has the number of the first.
    pub const BIGDATA: u16 = 0x01;
    /// The value is a table's record.
    pub const SUBDATA: u16 = 0x02;
    /// The value is a sub-page of values, or with SUBDATA the record of a tree of values.
    pub const DUPDATA: u16 = 0x04;
}

/// The supported file formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Data version 1: LMDB 0.9, OpenLDAP 2.4 to 2.6.
    #[default]
    V1,
    /// Data version 3: LMDB 1.0, OpenLDAP 2.7. Each page has the number of the transaction that wrote it.
    V3,
}

/// A file format together with a page size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    pub(crate) page_size: usize,
    pub(crate) format: Format,
    /// `Format::page_header`, cached for loops over the nodes of a page.
    page_header: u8,
    base: u8,
    key_pad: u8,
}

/// The fields of a page header except its number and transaction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    /// Value size of a LEAF2 page.
    pub pad: u16,
    pub flags: u16,
    /// `lower` and `upper` as offsets within the page, whatever they are relative to in the file.
    pub lower: usize,
    pub upper: usize,
}

/// The bytes that replace a node's value if the value is on overflow pages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LargePointer {
    bytes: [u8; 24],
    size: usize,
}

impl AsRef<[u8]> for LargePointer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.size]
    }
}

impl Format {
    pub(crate) const ALL: [Self; 2] = [Self::V1, Self::V3];

    /// Returns the version number in meta pages (`MDB_DATA_VERSION`).
    pub const fn version(self) -> u32 {
        match self {
            Self::V1 => 1,
            Self::V3 => 3,
        }
    }

    /// Returns the largest page size in bytes; offsets within a page are stored in 16 bits.
    const fn largest_page(self) -> u32 {
        match self {
            Self::V1 => 0x8000,
            Self::V3 => 0x1_0000,
        }
    }

    /// Bytes of a page before its pointers, values or overflow data.
    pub(crate) const fn page_header(self) -> usize {
        self.of_nodes().0 as usize
    }

    /// Returns the size of the page header; the offset from which bounds and pointers count (`PAGEBASE`); and 1 if
    /// values are aligned to even offsets after their keys.
    const fn of_nodes(self) -> (u8, u8, u8) {
        match self {
            Self::V1 => (16, 0, 0),
            Self::V3 => (24, 24, 1),
        }
    }

    /// Bytes of a `LargePointer`: the number of the first page (`pgno_t`), or that number, the transaction and the
    /// number of pages (`MDB_ovpage`).
    #[inline]
    const fn large_pointer(self) -> usize {
        match self {
            Self::V1 => 8,
            Self::V3 => 24,
        }
    }
}

impl Layout {
    /// `page_size` is a power of two from 4096 to 32768 bytes, or to 65536 in format 3.
    pub fn new(format: Format, page_size: u32) -> Result<Self> {
        let largest = format.largest_page();
        if !page_size.is_power_of_two() || !(4096..=largest).contains(&page_size) {
            let message = format!("page size {page_size} is no power of two from 4096 to {largest}");
            return Err(Error::new(ErrorKind::Misuse, message));
        }
        let (page_header, base, key_pad) = format.of_nodes();
        Ok(Self { page_size: page_size as usize, format, page_header, base, key_pad })
    }

    /// Returns the page size in bytes.
    pub const fn page_size(&self) -> usize {
        self.page_size
    }

    pub const fn format(&self) -> Format {
        self.format
    }

    /// Options for another file with this layout.
    #[allow(clippy::cast_possible_truncation)] // Page sizes end at 65536.
    pub const fn options(&self, map_size: u64) -> Options {
        Options { format: self.format, page_size: self.page_size as u32, map_size }
    }

    /// Returns the longest key, and longest value of a table with DUPSORT, in bytes.
    pub const fn max_key(&self) -> usize {
        match self.format {
            Format::V1 => 511,
            // A key must fit on a leaf together with the record of a tree of its values (`me_maxkey`).
            Format::V3 => self.max_node() - NODE_HEADER - Table::SIZE,
        }
    }

    #[inline]
    pub(crate) const fn page_header(&self) -> usize {
        self.page_header as usize
    }

    /// Returns the offset on a page from which bounds and pointers count.
    #[inline]
    const fn base(&self) -> usize {
        self.base as usize
    }

    /// Returns the largest node that stays in its leaf: any two of this size fit on a page.
    #[inline]
    pub(crate) const fn max_node(&self) -> usize {
        (((self.page_size - self.page_header()) / 2) & !1) - 2
    }

    /// Bytes between a key of this size and its value.
    #[inline]
    pub(crate) const fn key_pad(&self, size: usize) -> usize {
        size & self.key_pad as usize
    }

    /// Returns the overflow pages for a value of `size` bytes.
    pub(crate) const fn overflow_pages(&self, size: usize) -> u64 {
        ((self.page_header() + size - 1) / self.page_size + 1) as u64
    }

    /// Stores the number of a page, and in format 3 the transaction that wrote it.
    pub(crate) fn put_number(&self, page: &mut [u8], number: u64, txn: u64) {
        page[..8].copy_from_slice(&number.to_ne_bytes());
        if self.format == Format::V3 {
            page[8..16].copy_from_slice(&txn.to_ne_bytes());
        }
    }

    #[allow(clippy::cast_possible_truncation)] // Offsets within a page take 16 bits.
    pub(crate) fn put_header(&self, page: &mut [u8], header: Header) {
        let base = self.base();
        let bounds = [header.lower, header.upper].map(|bound| bound.saturating_sub(base) as u16);
        let fields = [header.pad, header.flags, bounds[0], bounds[1]];
        let end = self.page_header();
        for (place, field) in page[end - 8..end].chunks_exact_mut(2).zip(fields) {
            place.copy_from_slice(&field.to_ne_bytes());
        }
    }

    /// Returns a header padded to the longest of both formats.
    pub(crate) fn overflow_header(&self, number: u64, txn: u64, pages: u32) -> [u8; MAX_PAGE_HEADER] {
        let (mut header, end) = ([0; MAX_PAGE_HEADER], self.page_header());
        self.put_number(&mut header, number, txn);
        header[end - 6..end - 4].copy_from_slice(&page::OVERFLOW.to_ne_bytes());
        header[end - 4..end].copy_from_slice(&pages.to_ne_bytes());
        header
    }

    /// Returns whether this page header is that of an overflow page.
    pub(crate) fn is_overflow(&self, header: &[u8]) -> bool {
        self.header(header).flags & page::KINDS == page::OVERFLOW
    }

    /// Returns the bytes that replace a node's value if the value is on overflow pages.
    pub(crate) fn large_pointer(&self, number: u64, txn: u64, pages: u64) -> LargePointer {
        let mut bytes = [0; 24];
        for (place, field) in bytes.chunks_exact_mut(8).zip([number, txn, pages]) {
            place.copy_from_slice(&field.to_ne_bytes());
        }
        LargePointer { bytes, size: self.large_pointer_size() }
    }

    #[inline]
    pub(crate) const fn large_pointer_size(&self) -> usize {
        self.format.large_pointer()
    }

    pub(crate) fn number(page: &[u8]) -> u64 {
        read_u64(page, 0)
    }

    /// Refuses a page that has another number than `number`, or is of a later transaction than the snapshot, which LMDB
    /// would treat as not yet written.
    pub(crate) fn check_number(&self, page: &[u8], number: u64, snapshot: u64) -> PageCheck<()> {
        if Self::number(page) != number {
            return Err("a page whose number does not match its position");
        }
        if self.format == Format::V3 && read_u64(page, 8) > snapshot {
            return Err("a page of a later transaction than that of the snapshot");
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn header(&self, page: &[u8]) -> Header {
        let (end, base) = (self.page_header(), self.base());
        Header {
            pad: read_u16(page, end - 8),
            flags: read_u16(page, end - 6),
            lower: base + usize::from(read_u16(page, end - 4)),
            upper: base + usize::from(read_u16(page, end - 2)),
        }
    }

    pub(crate) fn overflow_count(&self, page: &[u8]) -> u32 {
        read_u32(page, self.page_header() - 4)
    }

    /// Returns the offset on the page of the node that the pointer at `at` leads to.
    #[inline]
    pub(crate) fn pointer(&self, page: &[u8], at: usize) -> usize {
        self.base() + usize::from(read_u16(page, at))
    }

    /// Encodes the pointer to a node that begins at `place`.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // Offsets within a page take 16 bits.
    pub(crate) fn pointer_to(&self, place: usize) -> [u8; 2] {
        ((place - self.base()) as u16).to_ne_bytes()
    }

    /// Flags of a sub-page in a leaf's node.
    pub(crate) const fn sub_page_flags(&self) -> u16 {
        match self.format {
            Format::V1 => page::LEAF | page::DIRTY | page::SUBP,
            Format::V3 => page::LEAF | page::SUBP,
        }
    }

    /// Returns a leaf node's header: the value's size in 32 bits, low half first, flags, key size.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // Callers hold to MAX_VALUE and MAX_KEY.
    pub(crate) fn leaf_node(size: usize, flags: u16, key: usize) -> [u8; 8] {
        Self::halves([size as u16, (size >> 16) as u16, flags, key as u16])
    }

    /// Returns a branch node's header: the child's number in 48 bits, low 16 first, and key size.
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

    /// Returns a table's key in the main table: in format 3 the name includes the NUL of a C string.
    pub(crate) fn stored_name(&self, name: &[u8]) -> Vec<u8> {
        match self.format {
            Format::V1 => name.to_vec(),
            Format::V3 => [name, b"\0"].concat(),
        }
    }

    /// Returns the name of a table, given its key in the main table.
    pub(crate) fn name<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        match self.format {
            Format::V1 => key,
            Format::V3 => key.strip_suffix(b"\0").unwrap_or(key),
        }
    }
}

/// Rounds `size` up to an even number, because nodes begin at even offsets.
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
