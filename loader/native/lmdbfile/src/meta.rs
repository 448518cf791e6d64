//! Meta pages: where a snapshot of the file begins (`MDB_meta` in libraries/liblmdb/mdb.c).

use crate::layout::{Header, page, read_u32, read_u64};
use crate::{Format, Layout, Table};

/// Bytes of a meta page in use, its header included.
pub(crate) const META_SIZE: usize = 152;
const MAGIC: u32 = 0xBEEF_C0DE;

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
        // Behind the longer page header of LMDB 1.0.
        if read_u32(page, 24) == MAGIC {
            return Err("LMDB file format 3 (LMDB 1.0, OpenLDAP 2.7), which is not read");
        }
        if Self::header(page).flags & page::META == 0 || read_u32(page, 16) != MAGIC {
            return Err("no LMDB database, or one from a machine of the other byte order");
        }
        if read_u32(page, 20) != 1 {
            return Err("an LMDB file format other than 1 (LMDB 0.9)");
        }
        let free = Table::decode(&page[40..88]);
        let layout = Self::new(Format::V1, free.pad);
        let layout =
            layout.map_err(|_| "a page size that is no power of two from 4096 to 32768")?;
        let main = Table::decode(&page[88..136]);
        let (map_size, last_page, txn) =
            (read_u64(page, 32), read_u64(page, 136), read_u64(page, 144));
        Ok((layout, Meta { map_size, free, main, last_page, txn }))
    }

    pub(crate) fn meta_page(&self, number: u64, meta: &Meta) -> Vec<u8> {
        let mut page = vec![0; self.page_size];
        Self::put_number(&mut page, number);
        Self::put_header(&mut page, Header { pad: 0, flags: page::META, lower: 0, upper: 0 });
        let body = &mut page[self.page_header..];
        body[..4].copy_from_slice(&MAGIC.to_ne_bytes());
        body[4..8].copy_from_slice(&self.version.to_ne_bytes());
        body[16..24].copy_from_slice(&meta.map_size.to_ne_bytes());
        body[24..72].copy_from_slice(&meta.free.encode());
        body[72..120].copy_from_slice(&meta.main.encode());
        body[120..128].copy_from_slice(&meta.last_page.to_ne_bytes());
        body[128..136].copy_from_slice(&meta.txn.to_ne_bytes());
        page
    }
}
