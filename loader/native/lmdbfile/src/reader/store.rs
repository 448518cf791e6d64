//! A cache of blocks of the file. Blocks are read, not mapped, because access to a mapped file raises SIGBUS once the
//! file is truncated.

use std::cell::{Cell, RefCell};
use std::io::IoSliceMut;
use std::ops::Range;
use std::sync::Arc;

use super::rules::{Place, TreeRules};
use super::view::{Kind, View};
use crate::Result;
use crate::source::{Large, LargeNode, PageSource, cut};
use disk::Buffer;

/// Bytes of a block.
const BLOCK: usize = 64 << 10;
/// Number of cached blocks, few enough to stay in the CPU's cache. Each block has the choice between two slots.
const SLOTS: usize = 48;
/// Number of blocks that a sequential reader reads from the disk at a time.
const AHEAD: u64 = 16;
/// Number of blocks that a sequential reader reads from the page cache at a time.
const AHEAD_IN_CACHE: u64 = 4;
/// Number of cached pages if blocks are single pages.
const SCATTERED_SLOTS: usize = 64;

/// Number of jumps after which the pages of trees count as scattered.
const JUMPS: u32 = 256;

type Slot = Option<Block>;

#[derive(Debug, Clone)]
struct Block {
    number: u64,
    bytes: Arc<Buffer>,
    /// For each page of the block that has passed the rules of a tree, these rules and the page's view.
    checked: Vec<Option<(TreeRules, View)>>,
}

#[derive(Debug)]
pub(crate) struct BlockCache {
    pub source: Arc<PageSource>,
    slots: RefCell<Vec<Slot>>,
    /// Bytes of a block: `BLOCK`, or the page size if `scattered` is set.
    block: Cell<usize>,
    /// The pages of trees are scattered over the file, so blocks are single pages.
    scattered: Cell<bool>,
    /// Number of blocks read whose previous block was not cached, minus the number of those whose previous block was.
    jumps: Cell<u32>,
}

impl BlockCache {
    pub fn new(source: PageSource) -> Self {
        Self::of(Arc::new(source), BLOCK, SLOTS, false)
    }

    /// Returns a cache that reads single pages, through the page cache.
    pub fn scattered(source: PageSource) -> Self {
        let block = source.layout.page_size;
        Self::of(Arc::new(source), block, SCATTERED_SLOTS, true)
    }

    fn of(source: Arc<PageSource>, block: usize, slots: usize, scattered: bool) -> Self {
        let slots = RefCell::new(vec![None; slots]);
        let (block, scattered, jumps) = (block.into(), scattered.into(), Cell::default());
        Self { source, slots, block, scattered, jumps }
    }

    /// Returns another cache of the same file, for another thread.
    pub fn fork(&self) -> Self {
        let slots = self.slots.borrow().len();
        Self::of(Arc::clone(&self.source), self.block.get(), slots, self.scattered.get())
    }

    /// Returns a checked page of a tree. `in_order` is set if the caller visits the keys of the tree in order.
    pub fn checked(&self, number: u64, rules: &TreeRules, place: Place<'_>, in_order: bool) -> Result<View> {
        if let Some(view) = self.cached_view(number, rules) {
            return rules.check_view(number, &view, place, true).map(|()| view);
        }
        let view = if in_order { self.next_view(number)? } else { self.lookup_view(number)? };
        rules.check_view(number, &view, place, false)?;
        let (block, at) = self.place(number);
        let mut slots = self.slots.borrow_mut();
        if let Some(block) = cached(&mut slots, block) {
            block.checked.resize(block.checked.len().max(at + 1), None);
            block.checked[at] = Some((*rules, view.clone()));
        }
        Ok(view)
    }

    fn cached_view(&self, number: u64, rules: &TreeRules) -> Option<View> {
        let (block, at) = self.place(number);
        let mut slots = self.slots.borrow_mut();
        let (passed, view) = cached(&mut slots, block)?.checked.get(at)?.as_ref()?;
        passed.is(rules).then(|| view.clone())
    }

    /// Returns a page of a tree, without readahead.
    pub fn view(&self, number: u64) -> Result<View> {
        self.view_of(number, false)
    }

    fn view_of(&self, number: u64, in_order: bool) -> Result<View> {
        let (block, range) = self.page(number, in_order)?;
        self.source.view_in(block, range, number)
    }

    /// Returns a page of a tree for a caller that visits the keys of the tree in order.
    pub fn next_view(&self, number: u64) -> Result<View> {
        if !self.scattered.get() {
            self.count_jump(number);
        }
        let view = self.view_of(number, true)?;
        if self.scattered.get() && view.kind == Kind::Branch {
            (0..view.count).for_each(|at| self.source.prefetch(view.child(at), 1));
        }
        Ok(view)
    }

    /// Returns a page for the look-up of a key. Reads blocks at first, for look-ups of neighbouring keys. Reads single
    /// pages once many blocks have been read (see `PageSource::count_lookup`).
    fn lookup_view(&self, number: u64) -> Result<View> {
        if !self.scattered.get() && !self.is_near(number) && self.source.count_lookup(self.block.get()) {
            self.scatter();
        }
        self.view(number)
    }

    /// Returns whether the block of the page, or the previous block, is cached.
    fn is_near(&self, number: u64) -> bool {
        let (block, _) = self.place(number);
        let mut slots = self.slots.borrow_mut();
        (block.saturating_sub(1)..=block).any(|near| cached(&mut slots, near).is_some())
    }

    /// Counts jumps, which show whether the pages of trees are contiguous or scattered.
    fn count_jump(&self, number: u64) {
        let (block, _) = self.place(number);
        let mut slots = self.slots.borrow_mut();
        if cached(&mut slots, block).is_some() {
            return;
        }
        let follows = block > 0 && cached(&mut slots, block - 1).is_some();
        let jumps = self.jumps.get();
        drop(slots);
        self.jumps.set(if follows { jumps.saturating_sub(1) } else { jumps + 1 });
        if self.jumps.get() > JUMPS {
            self.scatter();
        }
    }

    /// Switches to single pages, which are read through the page cache.
    fn scatter(&self) {
        self.scattered.set(true);
        self.block.set(self.source.layout.page_size);
        self.slots.borrow_mut().fill(None);
        self.source.prefetch_all();
    }

    /// Reads a value on overflow pages. Returns the value and the number of these pages.
    pub fn large_value(&self, node: LargeNode) -> Result<(Vec<u8>, u64)> {
        let large = self.large(node)?;
        let mut value = vec![0; node.size];
        self.source.part(large, 0, &mut value)?;
        Ok((value, large.pages))
    }

    /// Returns the location of a value on overflow pages. Reads and checks only the first of these pages.
    pub fn large(&self, node: LargeNode) -> Result<Large> {
        let (block, range) = self.page(node.first, true)?;
        let page = block.get(range).ok_or_else(|| cut(node.first))?;
        self.source.large(page, node)
    }

    /// Returns the block of a page, and the range of the page in the block. At the end of the file, the block may end
    /// before the range. `in_order` is that of [`Self::checked`].
    fn page(&self, number: u64, in_order: bool) -> Result<(Arc<Buffer>, Range<usize>)> {
        self.source.check(number)?;
        let (block, at) = self.place(number);
        let start = at * self.source.layout.page_size;
        Ok((self.block(block, in_order)?, start..start + self.source.layout.page_size))
    }

    /// Returns the number of a page's block, and the page's index in that block.
    fn place(&self, number: u64) -> (u64, usize) {
        let in_block = (self.block.get() / self.source.layout.page_size) as u64;
        (number / in_block, usize::try_from(number % in_block).unwrap_or(0))
    }

    /// Returns a block. If `in_order` is set and the previous blocks are cached, also reads the following blocks: twice as
    /// many with each read, because the reader of a range of keys may end soon.
    fn block(&self, number: u64, in_order: bool) -> Result<Arc<Buffer>> {
        let mut slots = self.slots.borrow_mut();
        if let Some(block) = cached(&mut slots, number) {
            return Ok(Arc::clone(&block.bytes));
        }
        let (size, offset) = (self.block.get(), number * self.block.get() as u64);
        let most = match in_order && !self.scattered.get() {
            false => 1,
            true if self.source.has(offset, size) => AHEAD_IN_CACHE,
            true => AHEAD,
        };
        let mut count = 1;
        while count < most && number.checked_sub(count).is_some_and(|at| cached(&mut slots, at).is_some()) {
            count *= 2;
        }
        let mut blocks: Vec<_> = (number..number + count).map(|at| reused(&mut slots, at, size)).collect();
        self.read(&mut blocks, offset)?;
        for (number, bytes) in (number..).zip(blocks).filter(|(at, bytes)| *at == number || bytes.len() == size) {
            let slot = pair(number, &slots);
            slots[slot] = Some(Block { number, bytes: Arc::new(bytes), checked: Vec::new() });
        }
        Ok(cached(&mut slots, number).map_or_else(|| Arc::new(Buffer::new(0)), |block| Arc::clone(&block.bytes)))
    }

    /// Fills the blocks in order; at the end of the file some are short or empty.
    fn read(&self, blocks: &mut [Buffer], offset: u64) -> Result<()> {
        let mut rooms: Vec<_> = blocks.iter_mut().map(|block| IoSliceMut::new(block.room())).collect();
        let mut count = self.source.read(&mut rooms, offset, self.scattered.get())?;
        for block in blocks {
            let here = count.min(self.block.get());
            block.fill(here);
            count -= here;
        }
        Ok(())
    }
}

/// Returns the index of the first of the two slots for a block. The first slot has the block that was used last. With
/// two slots, a root that is used again and again is not evicted by each leaf that shares its slots.
fn pair(number: u64, slots: &[Slot]) -> usize {
    usize::try_from(number % (slots.len() as u64 / 2)).unwrap_or(0) * 2
}

fn cached(slots: &mut [Slot], number: u64) -> Option<&mut Block> {
    let at = pair(number, slots);
    if slots[at + 1].as_ref().is_some_and(|block| block.number == number) {
        slots.swap(at, at + 1);
    }
    slots[at].as_mut().filter(|block| block.number == number)
}

/// Returns a buffer for block `number`: that of the block it evicts, unless a view still refers to the evicted block.
fn reused(slots: &mut [Slot], number: u64, size: usize) -> Buffer {
    let at = pair(number, slots);
    if cached(slots, number).is_none() {
        slots.swap(at, at + 1);
    }
    // The checked views refer to the block, so they are dropped first.
    let old = slots[at].take().map(|block| block.bytes).and_then(Arc::into_inner);
    let mut block = old.unwrap_or_else(|| Buffer::new(size));
    block.clear();
    block
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::Path;

    use fastrand::Rng;
    use heed::EnvOpenOptions;
    use heed::types::Bytes;
    use rustix::fs::{Advice, fadvise};

    use crate::Reader;

    const ROWS: u64 = 60_000;

    /// Writes 12 MiB of leaves with LMDB as slapadd does, with keys in random order (`mixed`) or in ascending order.
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
                assert_eq!(reader.store.scattered.get(), mixed, "the first pass detects it");
            }
            let expected = if mixed { reader.layout().page_size } else { super::BLOCK };
            assert_eq!(reader.store.block.get(), expected);
        }
    }

    /// Returns the number of bytes that were read from the disk for this thread.
    fn read_from_disk() -> u64 {
        let statistics = std::fs::read_to_string("/proc/thread-self/io").unwrap();
        let line = statistics.lines().find_map(|line| line.strip_prefix("read_bytes: ")).unwrap();
        line.parse().unwrap()
    }

    fn dropped_from_the_cache(path: &Path) -> u64 {
        let file = File::open(path).unwrap();
        file.sync_all().unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        file.metadata().unwrap().len()
    }

    #[test]
    fn lookups_all_over_a_file_do_not_read_it_many_times() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let path = directory.path().join("data.mdb");
        make(directory.path(), false);
        for all_over in [false, true] {
            let length = dropped_from_the_cache(&path);
            let (mut rng, before) = (Rng::with_seed(7), read_from_disk());
            let reader = Reader::open(&path).unwrap();
            let table = reader.table(b"t").unwrap();
            for number in 0..ROWS / 20 {
                let key = if all_over { rng.u64(..ROWS) } else { number * 20 }.to_be_bytes();
                assert_eq!(table.get(&key).unwrap(), Some(key.repeat(16)));
            }
            let read = read_from_disk() - before;
            assert!(read < 2 * length, "{read} bytes of {length}");
            assert_eq!(reader.store.scattered.get(), all_over);
        }
    }
}
