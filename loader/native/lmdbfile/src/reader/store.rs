//! Blocks of the file, read into memory of our own: in a mapped file that is cut short, a signal
//! would tell.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::IoSliceMut;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use super::view::{Kind, View};
use crate::bounds::{Bounds, cut};
use crate::{Layout, Result};
use disk::{Buffer, Direct, Readahead, Source};
use rustix::io::ReadWriteFlags;

/// Bytes of a block.
const BLOCK: usize = 64 << 10;
/// Blocks kept, each in the slot of its number. So few that they stay near the processor.
const SLOTS: u64 = 48;
/// Blocks read at a time by whoever goes through the file in order: from the disk, and from the page cache.
const AHEAD: u64 = 16;
const AHEAD_IN_CACHE: u64 = 4;
/// Pages kept where no block is larger than one.
const SCATTERED_SLOTS: u64 = 64;

/// Jumps after which pages lie in no order.
const JUMPS: u32 = 256;

/// A block and its number.
type Slot = Option<(u64, Arc<Buffer>)>;

#[derive(Debug)]
pub(crate) struct BlockCache {
    file: Direct,
    /// What the page cache may have.
    cache: Cache,
    pub layout: Layout,
    /// Pages that are in use at most: those up to the last one that are in the file.
    pub pages: u64,
    slots: RefCell<Vec<Slot>>,
    /// Bytes of a block.
    block: Cell<usize>,
    /// Pages lie in no order: no more than one is read at a time.
    scattered: Cell<bool>,
    /// For whoever goes through trees whose pages lie in no order.
    ahead: Option<Arc<Readahead>>,
    /// Blocks on the way through a tree that did not follow another, less those that did.
    jumps: Cell<u32>,
}

impl BlockCache {
    /// `pages` are in the file.
    pub fn open(path: &Path, file: File, layout: Layout, pages: u64) -> Result<Self> {
        let ahead = Readahead::new(&file, pages * layout.page_size as u64)?;
        let store = Self::new(Direct::new(file, path)?, layout, pages, (BLOCK, SLOTS));
        Ok(Self { ahead: Some(ahead), ..store })
    }

    /// The same with no more read than is asked for, through the page cache.
    pub fn open_scattered(file: File, layout: Layout, pages: u64) -> Self {
        let sizes = (layout.page_size, SCATTERED_SLOTS);
        Self { scattered: Cell::new(true), ..Self::new(Direct::cached(file), layout, pages, sizes) }
    }

    fn new(file: Direct, layout: Layout, pages: u64, (block, slots): (usize, u64)) -> Self {
        let slots = RefCell::new((0..slots).map(|_| None).collect());
        Self {
            file,
            cache: Cache::default(),
            layout,
            pages,
            slots,
            block: Cell::new(block),
            scattered: Cell::default(),
            ahead: None,
            jumps: Cell::default(),
        }
    }

    /// The same pages for another thread.
    pub fn fork(&self) -> Result<Self> {
        let slots: Vec<Slot> = self.slots.borrow().iter().map(|_| None).collect();
        Ok(Self {
            file: self.file.fork()?,
            cache: Cache::default(),
            slots: RefCell::new(slots),
            block: self.block.clone(),
            scattered: self.scattered.clone(),
            ahead: self.ahead.clone(),
            jumps: Cell::default(),
            ..*self
        })
    }

    /// The file for whoever reads it in an order of their own.
    pub fn source(&self) -> Result<Source> {
        Ok(Source::new(self.file.fork()?))
    }

    pub const fn bounds(&self) -> Bounds {
        Bounds { layout: self.layout, pages: self.pages }
    }

    /// A page of a tree.
    pub fn view(&self, number: u64) -> Result<View> {
        let (block, range) = self.page(number)?;
        self.bounds().view(block, range, number)
    }

    /// A page of a tree that is gone through, in the order of its keys.
    pub fn next_view(&self, number: u64) -> Result<View> {
        if !self.scattered.get() && self.ahead.is_some() {
            self.look(number);
        }
        let view = self.view(number)?;
        if self.scattered.get() && view.kind == Kind::Branch {
            (0..view.count).for_each(|at| self.want(view.child(at)));
        }
        Ok(view)
    }

    /// The page will be read.
    fn want(&self, number: u64) {
        let size = self.layout.page_size as u64;
        if let Some(ahead) = &self.ahead {
            ahead.request(number.saturating_mul(size), size);
        }
    }

    /// Whether the pages of trees lie one after the other shows on the way.
    fn look(&self, number: u64) {
        let block = number / (self.block.get() / self.layout.page_size) as u64;
        let slots = self.slots.borrow();
        if kept(&slots, block).is_some() {
            return;
        }
        let follows = block > 0 && kept(&slots, block - 1).is_some();
        let jumps = self.jumps.get();
        drop(slots);
        self.jumps.set(if follows { jumps.saturating_sub(1) } else { jumps + 1 });
        if self.jumps.get() > JUMPS {
            self.scatter();
        }
    }

    /// From now on pages are read one by one, through the page cache.
    fn scatter(&self) {
        self.scattered.set(true);
        self.block.set(self.layout.page_size);
        self.slots.borrow_mut().fill(None);
        self.ahead.iter().for_each(Readahead::read_whole_file);
    }

    /// The value of `size` bytes that begins on overflow page `number`, and how many pages it has.
    pub fn overflow(&self, number: u64, size: usize) -> Result<(Vec<u8>, u64)> {
        let pages = self.overflow_pages(number, size)?;
        let mut value = vec![0; size];
        let start = number * self.layout.page_size as u64 + self.layout.page_header as u64;
        self.file.file().read_exact_at(&mut value, start)?;
        Ok((value, pages))
    }

    /// How many pages the value has.
    pub fn overflow_pages(&self, number: u64, size: usize) -> Result<u64> {
        let (block, range) = self.page(number)?;
        let page = block.get(range).ok_or_else(|| cut(number))?;
        self.bounds().overflow_pages(page, number, size)
    }

    /// The block of a page and where in it the page lies, if the file does not end before.
    fn page(&self, number: u64) -> Result<(Arc<Buffer>, Range<usize>)> {
        self.bounds().check(number)?;
        let in_block = (self.block.get() / self.layout.page_size) as u64;
        let start = usize::try_from(number % in_block).unwrap_or(0) * self.layout.page_size;
        Ok((self.block(number / in_block)?, start..start + self.layout.page_size))
    }

    fn block(&self, number: u64) -> Result<Arc<Buffer>> {
        let mut slots = self.slots.borrow_mut();
        if let Some(block) = kept(&slots, number) {
            return Ok(block);
        }
        let in_order = number > 0 && kept(&slots, number - 1).is_some();
        let count = if in_order && !self.scattered.get() { self.cache.ahead() } else { 1 };
        let mut blocks: Vec<_> =
            (number..number + count).map(|at| reused(&mut slots, at, self.block.get())).collect();
        self.read(&mut blocks, number * self.block.get() as u64)?;
        for (at, block) in (number..).zip(blocks) {
            if at == number || block.len() == self.block.get() {
                let place = slot(at, &slots);
                slots[place] = Some((at, Arc::new(block)));
            }
        }
        Ok(kept(&slots, number).unwrap_or_else(|| Arc::new(Buffer::new(0))))
    }

    /// Fills the blocks from the first on, fewer or none at the end of the file.
    fn read(&self, blocks: &mut [Buffer], offset: u64) -> Result<()> {
        let mut rooms: Vec<_> =
            blocks.iter_mut().map(|block| IoSliceMut::new(block.room())).collect();
        let mut count = match self.cache.read(self.file.file(), &mut rooms, offset) {
            Some(count) => count,
            None => self.disk(&mut rooms, offset)?,
        };
        for block in blocks {
            let here = count.min(self.block.get());
            block.fill(here);
            count -= here;
        }
        Ok(())
    }

    /// Past the page cache where that is possible.
    fn disk(&self, rooms: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize> {
        let file = &self.file;
        let read = if self.scattered.get() {
            file.read_cached(rooms, offset)
        } else {
            file.read(rooms, offset)
        };
        Ok(read?)
    }
}

/// Reads of what the page cache has already: a running server's database is mostly there.
///
/// A miss makes the system read the place into the cache besides, so after one nobody asks again for a while.
#[derive(Debug, Default)]
struct Cache {
    /// Reads until it is asked again, and how many they will be after the next miss.
    wait: Cell<u32>,
    next: Cell<u32>,
}

impl Cache {
    const LONGEST: u32 = 256;

    /// Blocks to be read at a time.
    fn ahead(&self) -> u64 {
        if self.next.get() == 0 { AHEAD_IN_CACHE } else { AHEAD }
    }

    /// `None` where not everything is there.
    fn read(&self, file: &File, rooms: &mut [IoSliceMut<'_>], offset: u64) -> Option<usize> {
        if self.wait.get() > 0 {
            self.wait.set(self.wait.get() - 1);
            return None;
        }
        let wanted: usize = rooms.iter().map(|room| room.len()).sum();
        let read = rustix::io::preadv2(file, rooms, offset, ReadWriteFlags::NOWAIT);
        if read == Ok(wanted) {
            self.next.set(0);
            return Some(wanted);
        }
        self.next.set((2 * self.next.get() + 1).min(Self::LONGEST));
        self.wait.set(self.next.get());
        None
    }
}

fn slot(number: u64, slots: &[Slot]) -> usize {
    usize::try_from(number % slots.len() as u64).unwrap_or(0)
}

fn kept(slots: &[Slot], number: u64) -> Option<Arc<Buffer>> {
    let (held, block) = slots[slot(number, slots)].as_ref()?;
    (*held == number).then(|| Arc::clone(block))
}

/// The memory of the block whose slot is wanted, unless somebody looks at it still.
fn reused(slots: &mut [Slot], number: u64, size: usize) -> Buffer {
    let at = slot(number, slots);
    let old = slots[at].take().and_then(|(_, block)| Arc::into_inner(block));
    let mut block = old.unwrap_or_else(|| Buffer::new(size));
    block.clear();
    block
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use fastrand::Rng;
    use heed::EnvOpenOptions;
    use heed::types::Bytes;

    use crate::Reader;

    const ROWS: u64 = 60_000;

    /// What slapadd leaves where keys come in no order, and where they do: 12 MiB of leaves, written by LMDB.
    fn make(directory: &Path, mixed: bool) {
        let mut options = EnvOpenOptions::new();
        options.map_size(1 << 28).max_dbs(1);
        // SAFETY: the directory is the test's own and the file is opened once.
        #[allow(unsafe_code)]
        let env = unsafe { options.open(directory) }.unwrap();
        let mut keys: Vec<_> = (0..ROWS).map(u64::to_be_bytes).collect();
        if mixed {
            Rng::with_seed(5).shuffle(&mut keys);
        }
        let mut txn = env.write_txn().unwrap();
        let table = env.create_database::<Bytes, Bytes>(&mut txn, Some("t")).unwrap();
        for key in &keys {
            table.put(&mut txn, key, &key.repeat(16)).unwrap();
        }
        txn.commit().unwrap();
    }

    #[test]
    fn pages_in_no_order_are_read_one_by_one() {
        for mixed in [false, true] {
            let directory = tempfile::tempdir().unwrap();
            make(directory.path(), mixed);
            let reader = Reader::open(&directory.path().join("data.mdb")).unwrap();
            for pass in 0..2 {
                let mut cursor = reader.table(b"t").unwrap().cursor().unwrap();
                for number in 0..ROWS {
                    let key = number.to_be_bytes();
                    let row = cursor.next().unwrap();
                    assert_eq!(row, Some((&key[..], &key.repeat(16)[..])), "pass {pass}");
                }
                assert!(cursor.next().unwrap().is_none());
                assert_eq!(reader.store.scattered.get(), mixed, "it shows on the first pass");
            }
            let expected = if mixed { reader.layout().page_size } else { super::BLOCK };
            assert_eq!(reader.store.block.get(), expected);
        }
    }
}
