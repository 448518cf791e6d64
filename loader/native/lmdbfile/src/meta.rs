//! Meta pages, from which a snapshot of the file is read (`MDB_meta` in libraries/liblmdb/mdb.c), and records of
//! tables.

use std::io::{self, Read};

use crate::layout::{Header, MAX_PAGE_HEADER, page, read_u16, read_u32, read_u64};
use crate::reader::PageCheck;
use crate::{Error, ErrorKind, Flags, Format, Layout, Result};

/// Bytes in use at the beginning of a meta page, in the format with the longer page header.
pub(crate) const META_SIZE: usize = MAX_PAGE_HEADER + 136;
const MAGIC: u32 = 0xBEEF_C0DE;
/// Flag in the record of the table of free pages: the environment of LMDB 1.0 is encrypted.
const ENCRYPTED: u16 = 0x2000;

/// The content of a meta page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    pub map_size: u64,
    /// The record of the table of free pages. Its `pad` is the page size.
    pub free: Table,
    /// The record of the main table.
    pub main: Table,
    pub last_page: u64,
    pub txn: u64,
}

/// A meta page, and the layout of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub layout: Layout,
    pub meta: Meta,
}

impl Head {
    /// Returns the newer meta page. `start` is the beginning of a file. Fails unless both meta pages are intact,
    /// because LMDB would refuse the file.
    pub fn newer(start: &[u8]) -> Result<Self> {
        Self::read_newer(|room, offset| {
            let rest = usize::try_from(offset).ok().and_then(|offset| start.get(offset..));
            rest.unwrap_or_default().read(room)
        })
    }

    /// Does the same as [`Self::newer`]. `read` fills a buffer from an offset of the file and returns the number of
    /// bytes read, which is less than requested only at the end of the file.
    pub(crate) fn read_newer(read: impl Fn(&mut [u8], u64) -> io::Result<usize>) -> Result<Self> {
        let at = |offset, number| {
            let mut page = [0; META_SIZE];
            let count = read(&mut page, offset)?;
            match Self::read(&page, number) {
                Err(error) if error.kind == ErrorKind::Foreign && number == 0 => Err(error),
                _ if count < META_SIZE => {
                    let message = "the file is too short for an LMDB database";
                    Err(Error::new(ErrorKind::Corrupt, message))
                }
                Err(error) if error.kind == ErrorKind::Foreign => Err(Error::corrupt(number, error.message)),
                head => head,
            }
        };
        let first = at(0, 0)?;
        let page_size = first.layout.page_size as u64;
        let mut checksum_size = [0; 2];
        if first.layout.format == Format::V3 {
            read(&mut checksum_size, page_size - 2)?;
        }
        if checksum_size != [0; 2] {
            let message = "an environment of LMDB 1.0 with checksums, which is not supported";
            return Err(Error { page: Some(0), ..Error::new(ErrorKind::Checksums, message) });
        }
        let second = at(page_size, 1)?;
        if second.layout != first.layout {
            return Err(Error::corrupt(1, "the meta pages differ in format or page size"));
        }
        Ok(if second.meta.txn > first.meta.txn { second } else { first })
    }

    /// Parses a meta page, of which `page` must have at least the first `META_SIZE` bytes.
    pub fn of_page(page: &[u8]) -> Result<Self> {
        let start = page.first_chunk::<META_SIZE>();
        let start = start.ok_or_else(|| Error::new(ErrorKind::Misuse, "no meta page"))?;
        Self::read(start, Layout::number(start))
    }

    fn read(page: &[u8; META_SIZE], number: u64) -> Result<Self> {
        let refused = |kind, message: String| Error { page: Some(number), ..Error::new(kind, message) };
        let format = Format::ALL.into_iter().find(|kind| read_u32(page, kind.page_header()) == MAGIC);
        let format = format.ok_or_else(|| {
            let message = "not a 64-bit LMDB database, or one from a machine of the other byte order";
            refused(ErrorKind::Foreign, message.into())
        })?;
        let body = &page[format.page_header()..];
        let version = read_u32(body, 4);
        if version != format.version() {
            let message = format!("data format {version} is of no released LMDB");
            return Err(refused(ErrorKind::Foreign, message));
        }
        let (free, main) = (Table::decode(&body[24..72]), Table::decode(&body[72..120]));
        let layout = Layout::new(format, free.pad)
            .map_err(|_| Error::corrupt(number, "a page size that is not a power of two of at least 4096"))?;
        if layout.header(page).flags & page::META == 0 {
            return Err(Error::corrupt(number, "a meta page without the meta page flag"));
        }
        if format == Format::V3 && free.flags.bits() & ENCRYPTED != 0 {
            let message = "an encrypted environment of LMDB 1.0, which is not supported";
            return Err(refused(ErrorKind::Encrypted, message.into()));
        }
        let (map_size, last_page, txn) = (read_u64(body, 16), read_u64(body, 120), read_u64(body, 128));
        let size = last_page.checked_add(1).and_then(|pages| pages.checked_mul(free.pad.into()));
        if last_page == 0 || size.is_none_or(|size| size > 1 << 63) {
            return Err(Error::corrupt(number, "an impossible last page number"));
        }
        Ok(Self { layout, meta: Meta { map_size, free, main, last_page, txn } })
    }

    /// Returns meta page `number` with this transaction and map size, and otherwise the same content.
    pub fn page(&self, number: u64, txn: u64, map_size: u64) -> Vec<u8> {
        self.layout.meta_page(number, &Meta { map_size, txn, ..self.meta })
    }

    /// Returns both meta pages of a copy of this snapshot, with the same content, so that LMDB can start from either.
    /// Transaction N writes meta page N % 2 (`mdb_env_write_meta`). In format 3 both meta pages have the same
    /// transaction, because LMDB treats a page with a later transaction than its meta page as not yet written.
    pub fn of_copy(&self) -> Vec<u8> {
        let (format, txn) = (self.layout.format, self.meta.txn);
        let pages = [0, 1].map(|number| {
            let is_older = format == Format::V1 && txn % 2 != number;
            self.page(number, txn.saturating_sub(u64::from(is_older)), self.meta.map_size)
        });
        pages.concat()
    }
}

impl Layout {
    pub(crate) fn meta_page(&self, number: u64, meta: &Meta) -> Vec<u8> {
        let mut page = vec![0; self.page_size];
        self.put_number(&mut page, number, 0);
        self.put_header(&mut page, Header { pad: 0, flags: page::META, lower: 0, upper: 0 });
        let body = &mut page[self.page_header()..];
        body[..4].copy_from_slice(&MAGIC.to_ne_bytes());
        body[4..8].copy_from_slice(&self.format.version().to_ne_bytes());
        body[16..24].copy_from_slice(&meta.map_size.to_ne_bytes());
        body[24..72].copy_from_slice(&meta.free.encode());
        body[72..120].copy_from_slice(&meta.main.encode());
        body[120..128].copy_from_slice(&meta.last_page.to_ne_bytes());
        body[128..136].copy_from_slice(&meta.txn.to_ne_bytes());
        page
    }
}

/// The page number of the root of an empty table.
pub(crate) const NO_PAGE: u64 = u64::MAX;

/// Maximum depth of a tree in LMDB (`CURSOR_STACK`).
const MAX_DEPTH: u16 = 32;

/// The record of a tree (`MDB_db`): it is in the main table, in a meta page, or in the node of a key with many values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    /// In a tree of values of one size, the size of each value in bytes. In the record of the table of free pages, the
    /// page size in bytes.
    pub pad: u32,
    pub flags: Flags,
    /// Number of levels of pages; 0 for an empty table.
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
        Self { pad: 0, flags, depth: 0, branch_pages: 0, leaf_pages: 0, overflow_pages: 0, entries: 0, root: NO_PAGE }
    }

    /// Refuses a depth beyond LMDB's limit. Call it before following the tree from its root.
    pub(crate) fn check_depth(&self) -> Result<()> {
        if self.depth > MAX_DEPTH || (self.depth == 0) != (self.root == NO_PAGE) {
            return Err(Error::corrupt(self.root, "a tree of an impossible depth"));
        }
        Ok(())
    }

    /// Reads the record from a node's value.
    pub(crate) fn read(data: &[u8]) -> PageCheck<Self> {
        let is_record = data.len() == Self::SIZE;
        if is_record { Ok(Self::decode(data)) } else { Err("a table's record of the wrong size") }
    }

    pub(crate) fn encode(&self) -> [u8; Self::SIZE] {
        let mut record = [0; Self::SIZE];
        record[..4].copy_from_slice(&self.pad.to_ne_bytes());
        record[4..6].copy_from_slice(&self.flags.bits().to_ne_bytes());
        record[6..8].copy_from_slice(&self.depth.to_ne_bytes());
        let counts = [self.branch_pages, self.leaf_pages, self.overflow_pages, self.entries, self.root];
        for (field, count) in record[8..].chunks_exact_mut(8).zip(counts) {
            field.copy_from_slice(&count.to_ne_bytes());
        }
        record
    }

    /// Decodes a record of [`Self::SIZE`] bytes.
    pub(crate) fn decode(record: &[u8]) -> Self {
        Self {
            pad: read_u32(record, 0),
            flags: Flags::from_bits_retain(read_u16(record, 4)),
            depth: read_u16(record, 6),
            branch_pages: read_u64(record, 8),
            leaf_pages: read_u64(record, 16),
            overflow_pages: read_u64(record, 24),
            entries: read_u64(record, 32),
            root: read_u64(record, 40),
        }
    }
}
