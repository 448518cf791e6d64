//! Meta pages: where a snapshot of the file begins (`MDB_meta` in libraries/liblmdb/mdb.c).

use crate::layout::{Header, MAX_PAGE_HEADER, page, read_u32, read_u64};
use crate::{Format, Layout, Table};

/// Bytes of a meta page in use at most, its header included.
pub(crate) const META_SIZE: usize = MAX_PAGE_HEADER + 136;
const MAGIC: u32 = 0xBEEF_C0DE;
/// Among the flags of an environment of LMDB 1.0, which stand in the record of free pages.
const ENCRYPTED: u16 = 0x2000;

/// What a meta page says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meta {
    pub map_size: u64,
    /// The table of free pages; its `pad` is the page size.
    pub free: Table,
    pub main: Table,
    pub last_page: u64,
    pub txn: u64,
}

impl Layout {
    /// Reads the first [`META_SIZE`] bytes of a meta page, or says what is wrong with them.
    pub(crate) fn read_meta(
        page: &[u8; META_SIZE],
    ) -> std::result::Result<(Self, Meta), &'static str> {
        let format =
            Format::ALL.into_iter().find(|kind| read_u32(page, kind.page_header()) == MAGIC);
        let format =
            format.ok_or("no LMDB database, or one from a machine of the other byte order")?;
        let body = &page[format.page_header()..];
        if read_u32(body, 4) != format.version() {
            return Err("an LMDB file format other than 1 (LMDB 0.9) and 3 (LMDB 1.0)");
        }
        let (free, main) = (Table::decode(&body[24..72]), Table::decode(&body[72..120]));
        let layout = Self::new(format, free.pad);
        let layout = layout.map_err(|_| "a page size that is no power of two from 4096 on")?;
        if layout.header(page).flags & page::META == 0 {
            return Err("a meta page that does not say that it is one");
        }
        if format == Format::V3 && free.flags.bits() & ENCRYPTED != 0 {
            return Err("an encrypted environment of LMDB 1.0, which is not read");
        }
        let (map_size, last_page, txn) =
            (read_u64(body, 16), read_u64(body, 120), read_u64(body, 128));
        Ok((layout, Meta { map_size, free, main, last_page, txn }))
    }

    /// Bytes of a checksum at the end of each page, as the last two bytes of the first meta page tell: where those are.
    pub(crate) fn checksum_place(&self) -> Option<u64> {
        (self.format == Format::V3).then(|| self.page_size as u64 - 2)
    }

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
