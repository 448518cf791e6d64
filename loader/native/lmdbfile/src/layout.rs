//! The layout of pages and nodes in both of LMDB's file formats (libraries/liblmdb/mdb.c: `MDB_page`, `MDB_node`,
//! `mdb_env_open2`).

use crate::reader::PageCheck;
use crate::{Error, ErrorKind, Options, Result, Table};

/// Maximum size of a value in bytes, because its size is stored in 32 bits.
pub(crate) const MAX_VALUE: usize = u32::MAX as usize;
/// Number of meta pages, which are the first pages of the file.
pub(crate) const META_PAGES: u64 = 2;
/// Bytes of a node before its key.
pub(crate) const NODE_HEADER: usize = 8;
/// Bytes of the page header in the format with the longer page header.
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
    /// The value is on overflow pages, and the node has a `LargePointer` instead.
    pub const BIGDATA: u16 = 0x01;
    /// The value is a table's record.
    pub const SUBDATA: u16 = 0x02;
    /// The value is a sub-page of values; with SUBDATA, the record of a tree of values.
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
    /// `Format::of_nodes`, cached for loops over the nodes of a page.
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
    /// `lower` as an offset within the page, in both formats.
    pub lower: usize,
    /// `upper` as an offset within the page, in both formats.
    pub upper: usize,
}

/// The bytes in a node that refer to a value on overflow pages.
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

    /// Returns the largest page size in bytes. It is bounded because offsets within a page are stored in 16 bits.
    const fn largest_page(self) -> u32 {
        match self {
            Self::V1 => 0x8000,
            Self::V3 => 0x1_0000,
        }
    }

    /// Returns the size of the page header in bytes. Pointers, values or overflow data follow the header.
    pub(crate) const fn page_header(self) -> usize {
        self.of_nodes().0 as usize
    }

    /// Returns the size of the page header in bytes, the offset to which `lower`, `upper` and pointers are relative
    /// (`PAGEBASE`), and whether values are aligned to even offsets (1 or 0).
    const fn of_nodes(self) -> (u8, u8, u8) {
        match self {
            Self::V1 => (16, 0, 0),
            Self::V3 => (24, 24, 1),
        }
    }

    /// Returns the size of a `LargePointer` in bytes. In format 1 it is the number of the first page (`pgno_t`); in
    /// format 3 the transaction and the number of pages follow (`MDB_ovpage`).
    #[inline]
    pub(crate) const fn large_pointer_size(self) -> usize {
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

    /// Returns the number of bytes of a page.
    pub const fn page_size(&self) -> usize {
        self.page_size
    }

    pub const fn format(&self) -> Format {
        self.format
    }

    /// Returns the options for another file with this layout.
    #[allow(clippy::cast_possible_truncation, reason = "a page has at most 65536 bytes")]
    pub const fn options(&self, map_size: u64) -> Options {
        Options { format: self.format, page_size: self.page_size as u32, map_size }
    }

    /// Returns the maximum size in bytes of a key, and of a value of a table with DUPSORT.
    pub const fn max_key(&self) -> usize {
        match self.format {
            Format::V1 => 511,
            // A leaf's node must have room for the key and the record of a tree of its values (`me_maxkey`).
            Format::V3 => self.max_node() - NODE_HEADER - Table::SIZE,
        }
    }

    #[inline]
    pub(crate) const fn page_header(&self) -> usize {
        self.page_header as usize
    }

    /// Returns the offset on a page to which `lower`, `upper` and pointers are relative.
    #[inline]
    const fn base(&self) -> usize {
        self.base as usize
    }

    /// Returns the maximum size of a node in bytes, such that two nodes fit on a page. A larger value goes to overflow
    /// pages.
    #[inline]
    pub(crate) const fn max_node(&self) -> usize {
        (((self.page_size - self.page_header()) / 2) & !1) - 2
    }

    /// Returns the number of bytes between a key of this size and its value.
    #[inline]
    pub(crate) const fn key_pad(&self, size: usize) -> usize {
        size & self.key_pad as usize
    }

    /// Returns the number of overflow pages for a value of `size` bytes.
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

    #[allow(clippy::cast_possible_truncation, reason = "offsets within a page have 16 bits")]
    pub(crate) fn put_header(&self, page: &mut [u8], header: Header) {
        let base = self.base();
        let bounds = [header.lower, header.upper].map(|bound| bound.saturating_sub(base) as u16);
        let fields = [header.pad, header.flags, bounds[0], bounds[1]];
        let end = self.page_header();
        page[end - 8..end].copy_from_slice(&halves(fields));
    }

    /// Returns the header of a value's first overflow page, padded to `MAX_PAGE_HEADER` bytes.
    pub(crate) fn overflow_header(&self, number: u64, txn: u64, pages: u32) -> [u8; MAX_PAGE_HEADER] {
        let (mut header, end) = ([0; MAX_PAGE_HEADER], self.page_header());
        self.put_number(&mut header, number, txn);
        header[end - 6..end - 4].copy_from_slice(&page::OVERFLOW.to_ne_bytes());
        header[end - 4..end].copy_from_slice(&pages.to_ne_bytes());
        header
    }

    /// Returns whether `header` belongs to a value's first overflow page.
    pub(crate) fn is_overflow(&self, header: &[u8]) -> bool {
        self.header(header).flags & page::KINDS == page::OVERFLOW
    }

    /// Returns the `LargePointer` to a value on `pages` overflow pages, the first of which is page `number`.
    pub(crate) fn large_pointer(&self, number: u64, txn: u64, pages: u64) -> LargePointer {
        let mut bytes = [0; 24];
        for (place, field) in bytes.chunks_exact_mut(8).zip([number, txn, pages]) {
            place.copy_from_slice(&field.to_ne_bytes());
        }
        LargePointer { bytes, size: self.format.large_pointer_size() }
    }

    pub(crate) fn number(page: &[u8]) -> u64 {
        read_u64(page, 0)
    }

    /// Refuses a page whose number is not `number`, or whose transaction is later than that of the snapshot: LMDB would
    /// treat such a page as not yet written.
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

    /// Reads the pointer at offset `at`. Returns the offset of its node within the page.
    #[inline]
    pub(crate) fn pointer(&self, page: &[u8], at: usize) -> usize {
        self.base() + usize::from(read_u16(page, at))
    }

    /// Returns the pointer to a node at offset `start` of the page.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "offsets within a page have 16 bits")]
    pub(crate) fn pointer_to(&self, start: usize) -> [u8; 2] {
        ((start - self.base()) as u16).to_ne_bytes()
    }

    /// Returns the flags of a sub-page with nodes.
    pub(crate) const fn sub_page_flags(&self) -> u16 {
        match self.format {
            Format::V1 => page::LEAF | page::DIRTY | page::SUBP,
            Format::V3 => page::LEAF | page::SUBP,
        }
    }

    /// Returns the header of a leaf's node: the size of the value in 32 bits, low half first, the flags, and the size
    /// of the key.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "at most MAX_VALUE and `max_key`")]
    pub(crate) fn leaf_node(size: usize, flags: u16, key: usize) -> [u8; 8] {
        halves([size as u16, (size >> 16) as u16, flags, key as u16])
    }

    /// Returns the header of a branch's node: the number of the child in 48 bits, lowest 16 first, and the size of the
    /// key.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "splits the number")]
    pub(crate) fn branch_node(child: u64, key: usize) -> [u8; 8] {
        halves([child as u16, (child >> 16) as u16, (child >> 32) as u16, key as u16])
    }

    /// Returns the number of the child of a branch's node at offset `start` of the page.
    #[inline]
    pub(crate) fn child(page: &[u8], start: usize) -> u64 {
        let part = |at| u64::from(read_u16(page, start + at));
        part(0) | part(2) << 16 | part(4) << 32
    }

    /// Returns the key under which the main table has the table `name`. In format 3 the key ends with a NUL.
    pub(crate) fn stored_name(&self, name: &[u8]) -> Vec<u8> {
        match self.format {
            Format::V1 => name.to_vec(),
            Format::V3 => [name, b"\0"].concat(),
        }
    }

    /// Returns the name of the table with this key in the main table.
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
fn halves(fields: [u16; 4]) -> [u8; 8] {
    let mut bytes = [0; 8];
    for (bytes, field) in bytes.chunks_exact_mut(2).zip(fields) {
        bytes.copy_from_slice(&field.to_ne_bytes());
    }
    bytes
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
