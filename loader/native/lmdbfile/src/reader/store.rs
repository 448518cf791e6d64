//! Blocks of the file, read into memory of our own: in a mapped file that is cut short, a signal
//! would tell.

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
/// Blocks kept, each in one of the two slots of its number. So few that they stay near the processor.
const SLOTS: usize = 48;
/// Blocks read at a time by whoever goes through the file in order: from the disk, and from the page cache.
const AHEAD: u64 = 16;
const AHEAD_IN_CACHE: u64 = 4;
/// Pages kept where no block is larger than one.
const SCATTERED_SLOTS: usize = 64;

/// Jumps after which pages lie in no order.
const JUMPS: u32 = 256;

type Slot = Option<Block>;

#[derive(Debug, Clone)]
struct Block {
    number: u64,
    bytes: Arc<Buffer>,
    /// Its pages that have passed the rules of a tree.
    checked: Vec<Option<(TreeRules, View)>>,
}

#[derive(Debug)]
pub(crate) struct BlockCache {
    pub source: Arc<PageSource>,
    slots: RefCell<Vec<Slot>>,
    /// Bytes of a block.
    block: Cell<usize>,
    /// Pages lie in no order: no more than one is read at a time.
    scattered: Cell<bool>,
    /// Blocks on the way through a tree that did not follow another, less those that did.
    jumps: Cell<u32>,
}

impl BlockCache {
    pub fn new(source: PageSource) -> Self {
        Self::of(Arc::new(source), BLOCK, SLOTS, false)
    }

    /// The same with no more read than is asked for, through the page cache.
    pub fn scattered(source: PageSource) -> Self {
        let block = source.layout.page_size;
        Self::of(Arc::new(source), block, SCATTERED_SLOTS, true)
    }

    fn of(source: Arc<PageSource>, block: usize, slots: usize, scattered: bool) -> Self {
        let slots = RefCell::new(vec![None; slots]);
        let (block, scattered, jumps) = (block.into(), scattered.into(), Cell::default());
        Self { source, slots, block, scattered, jumps }
    }

    /// The same pages for another thread.
    pub fn fork(&self) -> Self {
        let slots = self.slots.borrow().len();
        Self::of(Arc::clone(&self.source), self.block.get(), slots, self.scattered.get())
    }

    /// A page of a tree, checked. `in_order`: of keys, by whoever goes through the tree.
    pub fn checked(
        &self,
        number: u64,
        rules: &TreeRules,
        place: Place<'_>,
        in_order: bool,
    ) -> Result<View> {
        if let Some(view) = self.checked_before(number, rules) {
            return rules.check_view(number, &view, place, true).map(|()| view);
        }
        let view = if in_order { self.next_view(number)? } else { self.sought_view(number)? };
        rules.check_view(number, &view, place, false)?;
        let (block, at) = self.place(number);
        let mut slots = self.slots.borrow_mut();
        if let Some(block) = kept(&mut slots, block) {
            block.checked.resize(block.checked.len().max(at + 1), None);
            block.checked[at] = Some((*rules, view.clone()));
        }
        Ok(view)
    }

    fn checked_before(&self, number: u64, rules: &TreeRules) -> Option<View> {
        let (block, at) = self.place(number);
        let mut slots = self.slots.borrow_mut();
        let (known, view) = kept(&mut slots, block)?.checked.get(at)?.as_ref()?;
        known.is(rules).then(|| view.clone())
    }

    /// A page of a tree, whatever is read next.
    pub fn view(&self, number: u64) -> Result<View> {
        self.view_of(number, false)
    }

    fn view_of(&self, number: u64, in_order: bool) -> Result<View> {
        let (block, range) = self.page(number, in_order)?;
        self.source.view_in(block, range, number)
    }

    /// A page of a tree that is gone through, in the order of its keys.
    pub fn next_view(&self, number: u64) -> Result<View> {
        if !self.scattered.get() {
            self.look(number);
        }
        let view = self.view_of(number, true)?;
        if self.scattered.get() && view.kind == Kind::Branch {
            (0..view.count).for_each(|at| self.source.want(view.child(at), 1));
        }
        Ok(view)
    }

    /// A page of a tree in which a key is sought. Blocks serve lookups that come near one another; where they have had
    /// much of the file read, they do not.
    fn sought_view(&self, number: u64) -> Result<View> {
        if !self.scattered.get() && !self.is_near(number) && self.source.seek(self.block.get()) {
            self.scatter();
        }
        self.view(number)
    }

    /// Whether the block of the page, or the one before it, is kept.
    fn is_near(&self, number: u64) -> bool {
        let (block, _) = self.place(number);
        let mut slots = self.slots.borrow_mut();
        (block.saturating_sub(1)..=block).any(|near| kept(&mut slots, near).is_some())
    }

    /// Whether the pages of trees lie one after the other shows on the way.
    fn look(&self, number: u64) {
        let (block, _) = self.place(number);
        let mut slots = self.slots.borrow_mut();
        if kept(&mut slots, block).is_some() {
            return;
        }
        let follows = block > 0 && kept(&mut slots, block - 1).is_some();
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
        self.block.set(self.source.layout.page_size);
        self.slots.borrow_mut().fill(None);
        self.source.want_all();
    }

    /// A value on overflow pages, and how many it has.
    pub fn large_value(&self, node: LargeNode) -> Result<(Vec<u8>, u64)> {
        let large = self.large(node)?;
        let mut value = vec![0; node.size];
        self.source.part(large, 0, &mut value)?;
        Ok((value, large.pages))
    }

    /// The value without its bytes.
    pub fn large(&self, node: LargeNode) -> Result<Large> {
        let (block, range) = self.page(node.first, true)?;
        let page = block.get(range).ok_or_else(|| cut(node.first))?;
        self.source.large(page, node)
    }

    /// The block of a page and where in it the page lies, if the file does not end before. `in_order` as in `checked`.
    fn page(&self, number: u64, in_order: bool) -> Result<(Arc<Buffer>, Range<usize>)> {
        self.source.check(number)?;
        let (block, at) = self.place(number);
        let start = at * self.source.layout.page_size;
        Ok((self.block(block, in_order)?, start..start + self.source.layout.page_size))
    }

    /// The number of a page's block, and its place among the pages of that.
    fn place(&self, number: u64) -> (u64, usize) {
        let in_block = (self.block.get() / self.source.layout.page_size) as u64;
        (number / in_block, usize::try_from(number % in_block).unwrap_or(0))
    }

    /// `in_order`: those behind it are read along, if the one before it is kept.
    fn block(&self, number: u64, in_order: bool) -> Result<Arc<Buffer>> {
        let mut slots = self.slots.borrow_mut();
        if let Some(block) = kept(&mut slots, number) {
            return Ok(Arc::clone(&block.bytes));
        }
        let (size, offset) = (self.block.get(), number * self.block.get() as u64);
        let follows = in_order && number > 0 && kept(&mut slots, number - 1).is_some();
        let count = match self.scattered.get() || !follows {
            true => 1,
            false if self.source.has(offset, size) => AHEAD_IN_CACHE,
            false => AHEAD,
        };
        let mut blocks: Vec<_> =
            (number..number + count).map(|at| reused(&mut slots, at, size)).collect();
        self.read(&mut blocks, offset)?;
        for (number, bytes) in
            (number..).zip(blocks).filter(|(at, bytes)| *at == number || bytes.len() == size)
        {
            let place = pair(number, &slots);
            slots[place] = Some(Block { number, bytes: Arc::new(bytes), checked: Vec::new() });
        }
        Ok(kept(&mut slots, number)
            .map_or_else(|| Arc::new(Buffer::new(0)), |block| Arc::clone(&block.bytes)))
    }

    /// Fills the blocks from the first on, fewer or none at the end of the file.
    fn read(&self, blocks: &mut [Buffer], offset: u64) -> Result<()> {
        let mut rooms: Vec<_> =
            blocks.iter_mut().map(|block| IoSliceMut::new(block.room())).collect();
        let mut count = self.source.read(&mut rooms, offset, self.scattered.get())?;
        for block in blocks {
            let here = count.min(self.block.get());
            block.fill(here);
            count -= here;
        }
        Ok(())
    }
}

/// The first slot of the number's pair, which has what was used last. By pairs, for a root that is looked at again and
/// again must not give way to each leaf that falls on its place.
fn pair(number: u64, slots: &[Slot]) -> usize {
    usize::try_from(number % (slots.len() as u64 / 2)).unwrap_or(0) * 2
}

fn kept(slots: &mut [Slot], number: u64) -> Option<&mut Block> {
    let at = pair(number, slots);
    if slots[at + 1].as_ref().is_some_and(|block| block.number == number) {
        slots.swap(at, at + 1);
    }
    slots[at].as_mut().filter(|block| block.number == number)
}

/// The memory of the block whose slot is wanted, unless somebody looks at it still.
fn reused(slots: &mut [Slot], number: u64, size: usize) -> Buffer {
    let at = pair(number, slots);
    if kept(slots, number).is_none() {
        slots.swap(at, at + 1);
    }
    // What was checked of it goes first.
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

    /// Bytes that this thread has had read from the disk.
    fn read_from_disk() -> u64 {
        let told = std::fs::read_to_string("/proc/thread-self/io").unwrap();
        let line = told.lines().find_map(|line| line.strip_prefix("read_bytes: ")).unwrap();
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
