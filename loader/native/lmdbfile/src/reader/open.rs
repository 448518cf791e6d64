//! From a file to a snapshot of it, as `mdb_env_read_header` finds the newest.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use disk::Direct;

use super::path::Path as Position;
use super::rules::TreeRules;
use super::store::BlockCache;
use super::{NamedTable, Reader};
use crate::layout::{META_PAGES, node};
use crate::meta::{Head, Meta};
use crate::source::PageSource;
use crate::{Error, Layout, Result};

/// Readings of the meta pages until two are alike.
const TRIES: u32 = 1000;

impl Reader {
    /// Takes the newer of the two meta pages; both must be whole, or LMDB would refuse the file.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_at(path, None)
    }

    /// The same for a file whose pages lie in no order, in the page cache for the most part: page by page,
    /// with little memory.
    pub fn open_scattered(path: &Path) -> Result<Self> {
        let open = || {
            let file = File::open(path)?;
            let Head { layout, meta } = settled(&file)?;
            let pages = pages_of(&file, layout, &meta)?;
            let source = PageSource::cached(Direct::cached(file), layout, pages, meta.txn);
            Self::with_store(BlockCache::scattered(source), meta)
        };
        open().map_err(|error: Error| error.of_file(path))
    }

    /// For whoever holds a reader's slot of transaction `txn`: the newest snapshot, which is that one or one after it.
    ///
    /// A slot keeps the pages of later snapshots too: LMDB uses a page again only when all readers began after the
    /// transaction that freed it (`mdb_page_alloc`). So nobody has to be quicker than the writers, whose second commit
    /// writes over the meta page of `txn`. `None`: nobody writes, or the caller finds out by the meta pages.
    pub fn open_at(path: &Path, txn: Option<u64>) -> Result<Self> {
        let open = || {
            let file = File::open(path)?;
            let Head { layout, meta } = settled(&file)?;
            if txn.is_some_and(|txn| meta.txn < txn) {
                let message =
                    format!("a snapshot older than the one that is held, of {}", meta.txn);
                return Err(Error::corrupt(meta.txn % 2, message));
            }
            Self::open_snapshot(path, file, layout, meta)
        };
        open().map_err(|error: Error| error.of_file(path))
    }

    /// The snapshot that a meta page tells of, `page` being the beginning of that at least. A
    /// reader's slot in the lock file has to hold it.
    pub fn open_meta(path: &Path, page: &[u8]) -> Result<Self> {
        let open = || {
            let Head { layout, meta } = Head::of_page(page)?;
            Self::open_snapshot(path, File::open(path)?, layout, meta)
        };
        open().map_err(|error: Error| error.of_file(path))
    }

    /// The same snapshot once more, for another thread.
    pub fn fork(&self) -> Result<Self> {
        let Self { store, meta, tables } = self;
        Ok(Self { store: store.fork(), meta: *meta, tables: tables.clone() })
    }

    fn open_snapshot(path: &Path, file: File, layout: Layout, meta: Meta) -> Result<Self> {
        let pages = pages_of(&file, layout, &meta)?;
        let source = PageSource::open(path, file, layout, pages, meta.txn)?;
        Self::with_store(BlockCache::new(source), meta)
    }

    fn with_store(store: BlockCache, meta: Meta) -> Result<Self> {
        let tables = named_tables(&store, &meta).map_err(|error| error.of_table("main"))?;
        Ok(Self { store, meta, tables })
    }
}

/// Pages that are in use at most. A file may end before its last page when that one is free.
fn pages_of(file: &File, layout: Layout, meta: &Meta) -> Result<u64> {
    let in_file = file.metadata()?.len() / layout.page_size as u64;
    let pages = in_file.min(meta.last_page + 1);
    if pages < META_PAGES {
        return Err(Error::corrupt(meta.txn % 2, "a last page that there cannot be"));
    }
    Ok(pages)
}

/// The newer meta page. A writer may be at it: it is read until it is the same twice.
fn settled(file: &File) -> Result<Head> {
    let newer = || {
        Head::read_newer(|room, offset| {
            let mut count = 0;
            while count < room.len() {
                match file.read_at(&mut room[count..], offset + count as u64)? {
                    0 => break,
                    more => count += more,
                }
            }
            Ok(count)
        })
    };
    let mut last = newer()?;
    for _ in 0..TRIES {
        let again = newer()?;
        if again == last {
            return Ok(last);
        }
        last = again;
    }
    // The meta pages change too fast to be read.
    Err(std::io::Error::from(rustix::io::Errno::BUSY).into())
}

fn named_tables(store: &BlockCache, meta: &Meta) -> Result<BTreeMap<Vec<u8>, NamedTable>> {
    let mut tables = BTreeMap::new();
    let rules = TreeRules::main(meta.main.flags);
    let mut position = Position::new(&meta.main, rules, store.source.pages)?;
    let mut found = position.first(store)?;
    while found {
        let node = position.node()?;
        if node.flags & (node::SUBDATA | node::DUPDATA) == node::SUBDATA {
            let name = store.source.layout.name(node.key);
            let table = NamedTable::new(name, position.record()?);
            if tables.insert(name.to_vec(), table).is_some() {
                return Err(Error::corrupt(position.page(), "two tables of one name"));
            }
        }
        found = position.next(store)?;
    }
    Ok(tables)
}
