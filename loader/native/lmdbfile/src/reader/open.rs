//! From a file to its newest snapshot, as `mdb_env_read_header` does it.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::cursor::table_record;
use super::path::Path as Position;
use super::store::Store;
use super::{Named, Reader};
use crate::layout::{META_PAGES, node};
use crate::meta::{META_SIZE, Meta};
use crate::{Error, ErrorKind, Layout, Order, Result};

impl Reader {
    /// Takes the newer of the two meta pages; both must be whole, or LMDB would refuse the file.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_file(path, false).map_err(|error| error.of_file(path))
    }

    /// The same for a file whose pages lie in no order, in the page cache for the most part: page by page,
    /// with little memory.
    pub fn open_scattered(path: &Path) -> Result<Self> {
        Self::open_file(path, true).map_err(|error| error.of_file(path))
    }

    fn open_file(path: &Path, scattered: bool) -> Result<Self> {
        let file = File::open(path)?;
        let (layout, first) = read_meta(&file, 0, 0)?;
        let (other, second) = read_meta(&file, layout.page_size as u64, 1)?;
        if other != layout {
            return Err(Error::corrupt(1, "the meta pages differ in page size"));
        }
        let meta = if second.txn > first.txn { second } else { first };
        let in_file = file.metadata()?.len() / layout.page_size as u64;
        // A file may end before its last page when that one is free.
        let pages = in_file.min(meta.last_page.saturating_add(1));
        if pages < META_PAGES || meta.last_page == u64::MAX {
            return Err(Error::corrupt(meta.txn % 2, "a last page that there cannot be"));
        }
        let store = if scattered {
            Store::open_scattered(file, layout, pages)
        } else {
            Store::open(path, file, layout, pages)?
        };
        let tables = named_tables(&store, &meta).map_err(|error| error.of_table("main"))?;
        Ok(Self { store, meta, tables })
    }
}

fn read_meta(file: &File, offset: u64, number: u64) -> Result<(Layout, Meta)> {
    let mut start = [0; META_SIZE];
    file.read_exact_at(&mut start, offset).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => {
            Error::new(ErrorKind::Corrupt, "the file is too short for an LMDB database")
        }
        _ => error.into(),
    })?;
    Layout::read_meta(&start).map_err(|what| Error::corrupt(number, what))
}

fn named_tables(store: &Store, meta: &Meta) -> Result<BTreeMap<Vec<u8>, Named>> {
    let mut tables = BTreeMap::new();
    let mut position = Position::new(&meta.main, Order::Bytes, store.pages)?;
    let mut found = position.first(store)?;
    while found {
        let node = position.node()?;
        if node.flags & (node::SUBDATA | node::DUPDATA) == node::SUBDATA {
            let record = table_record(node.data, position.page())?;
            let name = store.layout.name(node.key);
            tables.insert(name.to_vec(), Named::new(name, record));
        }
        found = position.next(store)?;
    }
    Ok(tables)
}
