//! Opens a snapshot of a file: usually the newest one, as `mdb_env_read_header` does.

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

/// Maximum number of attempts to read the meta pages twice without a change.
const TRIES: u32 = 1000;

impl Reader {
    /// Opens the newest snapshot. Fails unless both meta pages are intact, because LMDB would refuse the file.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_at(path, None)
    }

    /// Opens a file in which keys are looked up in no particular order, and which is mostly in the page cache: reads
    /// page by page, with little memory.
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

    /// Opens the newest snapshot for a caller with a reader slot of transaction `txn`: the snapshot of `txn` or a later
    /// one.
    ///
    /// The slot also protects the pages of later snapshots, because LMDB reuses a page only if all readers began after
    /// the transaction that freed the page (`mdb_page_alloc`). So it does no harm if writers commit before the file is
    /// opened, although the second commit overwrites the meta page of `txn`. `txn` is `None` if nobody writes, or if
    /// the caller notices changes by the meta pages.
    pub fn open_at(path: &Path, txn: Option<u64>) -> Result<Self> {
        let open = || {
            let file = File::open(path)?;
            let Head { layout, meta } = settled(&file)?;
            if txn.is_some_and(|txn| meta.txn < txn) {
                let message = format!("a snapshot older than that of the reader slot, transaction {}", meta.txn);
                return Err(Error::corrupt(meta.txn % 2, message));
            }
            Self::open_snapshot(path, file, layout, meta)
        };
        open().map_err(|error: Error| error.of_file(path))
    }

    /// Opens the snapshot of the meta page that begins with `page`. A reader slot in the lock file must protect the
    /// snapshot.
    pub fn open_meta(path: &Path, page: &[u8]) -> Result<Self> {
        let open = || {
            let Head { layout, meta } = Head::of_page(page)?;
            Self::open_snapshot(path, File::open(path)?, layout, meta)
        };
        open().map_err(|error: Error| error.of_file(path))
    }

    /// Opens the same snapshot for another thread.
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

/// Returns how many of the snapshot's pages the file has. It may lack the last pages if these are free.
fn pages_of(file: &File, layout: Layout, meta: &Meta) -> Result<u64> {
    let in_file = file.metadata()?.len() / layout.page_size as u64;
    let pages = in_file.min(meta.last_page + 1);
    if pages < META_PAGES {
        return Err(Error::corrupt(meta.txn % 2, "an impossible last page number"));
    }
    Ok(pages)
}

/// Returns the newer meta page. Reads until two readings agree, because a writer may change the meta pages meanwhile.
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
    // The meta pages changed at each attempt.
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
