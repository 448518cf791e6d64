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
use crate::meta::{META_SIZE, Meta};
use crate::source::PageSource;
use crate::{Error, ErrorKind, Layout, Result};

/// Readings of the meta pages until two are alike.
const TRIES: u32 = 1000;

impl Reader {
    /// Takes the newer of the two meta pages; both must be whole, or LMDB would refuse the file.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_file(path, None).map_err(|error| error.of_file(path))
    }

    /// The same for a file whose pages lie in no order, in the page cache for the most part: page by page,
    /// with little memory.
    pub fn open_scattered(path: &Path) -> Result<Self> {
        let open = || {
            let file = File::open(path)?;
            let (layout, meta) = settled(&file)?;
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
    /// writes over the meta page of `txn`.
    pub fn open_at(path: &Path, txn: u64) -> Result<Self> {
        Self::open_file(path, Some(txn)).map_err(|error| error.of_file(path))
    }

    /// The snapshot that a meta page tells of, `page` being the beginning of that at least. A
    /// reader's slot in the lock file has to hold it.
    pub fn open_meta(path: &Path, page: &[u8]) -> Result<Self> {
        let open = || {
            let start = page.first_chunk::<META_SIZE>();
            let start = start.ok_or_else(|| Error::new(ErrorKind::Misuse, "no meta page"))?;
            let (layout, meta) = Layout::read_meta(start)
                .map_err(|what| Error::corrupt(Layout::number(start), what))?;
            Self::open_snapshot(path, File::open(path)?, layout, meta)
        };
        open().map_err(|error: Error| error.of_file(path))
    }

    /// The same snapshot once more, for another thread.
    pub fn fork(&self) -> Result<Self> {
        let Self { store, meta, tables } = self;
        Ok(Self { store: store.fork(), meta: *meta, tables: tables.clone() })
    }

    fn open_file(path: &Path, txn: Option<u64>) -> Result<Self> {
        let file = File::open(path)?;
        let (layout, meta) = settled(&file)?;
        if txn.is_some_and(|txn| meta.txn < txn) {
            let message = format!("a snapshot older than the one that is held, of {}", meta.txn);
            return Err(Error::corrupt(meta.txn % 2, message));
        }
        Self::open_snapshot(path, file, layout, meta)
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
    require_plain(file, layout)?;
    let in_file = file.metadata()?.len() / layout.page_size as u64;
    let pages = in_file.min(meta.last_page.saturating_add(1));
    if pages < META_PAGES || meta.last_page == u64::MAX {
        return Err(Error::corrupt(meta.txn % 2, "a last page that there cannot be"));
    }
    Ok(pages)
}

/// Pages of an environment with checksums have less room.
fn require_plain(file: &File, layout: Layout) -> Result<()> {
    let Some(place) = layout.checksum_place() else { return Ok(()) };
    let mut size = [0; 2];
    file.read_exact_at(&mut size, place)?;
    if size == [0; 2] {
        return Ok(());
    }
    Err(Error::corrupt(0, "an environment of LMDB 1.0 with checksums, which is not read"))
}

/// The newer meta page. A writer may be at it: it is read until it is the same twice.
fn settled(file: &File) -> Result<(Layout, Meta)> {
    let mut last = newer(file)?;
    for _ in 0..TRIES {
        let again = newer(file)?;
        if again == last {
            return Ok(last);
        }
        last = again;
    }
    // The meta pages change too fast to be read.
    Err(std::io::Error::from(rustix::io::Errno::BUSY).into())
}

fn newer(file: &File) -> Result<(Layout, Meta)> {
    let (layout, first) = read_meta(file, 0, 0)?;
    let (other, second) = read_meta(file, layout.page_size as u64, 1)?;
    if other != layout {
        return Err(Error::corrupt(1, "the meta pages differ in format or page size"));
    }
    Ok((layout, if second.txn > first.txn { second } else { first }))
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
