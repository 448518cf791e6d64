//! Fills blocks with items, sorts the blocks, and merges them into runs when they exceed their share of memory.

use std::borrow::Cow;
use std::fmt::Debug;
use std::mem;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use common::lock;

use crate::scratch::{Appender, Resources};
use crate::{PATIENCE, Result};

/// A block of items in memory.
pub trait Block: Default + Send {
    /// A source of sorted items: a sorted block or a run.
    type Part: Source;
    /// Full blocks are spilled once they use this number of quarters of the memory.
    const QUARTERS: usize;
    /// Minimum size of a full block in bytes.
    const LEAST: usize;

    fn bytes(&self) -> usize;
    /// Returns an empty block with about the same capacity.
    fn next(&self) -> Self;
    fn sort(&mut self);
    fn into_part(self) -> Self::Part;
    fn write(merge: &mut Merge<Self::Part>, run: &mut Appender<'_>) -> Result<()>;
    fn open(run: Range<u64>, read_size: usize, resources: &Arc<Resources>) -> Result<Self::Part>;
}

#[derive(Debug)]
pub struct Sorter<B> {
    resources: Arc<Resources>,
    threads: usize,
    /// Size in bytes at which a block is full.
    pub(crate) block: usize,
    blocks: Mutex<Blocks<B>>,
    /// Locked by the thread that spills, so that the others wait instead of using more memory.
    spilling: Mutex<()>,
}

#[derive(Debug, Default)]
struct Blocks<B> {
    open: B,
    full: Vec<B>,
    /// Ranges of the sorted runs in the temporary file.
    runs: Vec<Range<u64>>,
}

impl<B: Block> Sorter<B> {
    /// Uses about `memory` bytes, then a temporary file in `dir`, and sorts with up to `threads` threads. When `stop`
    /// is set, all calls fail with [`Code::Cancelled`](common::Code::Cancelled).
    pub fn new(memory: usize, threads: usize, dir: &Path, stop: &Arc<AtomicBool>) -> Self {
        Self {
            resources: Arc::new(Resources::new(memory, dir, stop)),
            threads: threads.max(1),
            block: (memory / 32).min(16 << 20).max(B::LEAST),
            blocks: Mutex::default(),
            spilling: Mutex::default(),
        }
    }

    /// Adds items to the open block with `add`, without locking.
    #[inline]
    pub(crate) fn add<T>(&mut self, add: impl FnOnce(&mut B) -> T) -> Result<T> {
        let open = &mut self.blocks.get_mut().unwrap_or_else(PoisonError::into_inner).open;
        let result = add(open);
        if open.bytes() >= self.block {
            self.settle()?;
        }
        Ok(result)
    }

    /// Does the same as [`Self::add`]. Several threads may call it at once.
    pub(crate) fn add_shared<T>(&self, add: impl FnOnce(&mut B) -> T) -> Result<T> {
        let mut blocks = lock(&self.blocks);
        let result = add(&mut blocks.open);
        let is_full = blocks.open.bytes() >= self.block;
        drop(blocks);
        if is_full {
            self.settle()?;
        }
        Ok(result)
    }

    /// Begins a new block if the open one is full. Spills the full blocks if they exceed their share of memory.
    fn settle(&self) -> Result<()> {
        self.resources.check_cancelled()?;
        let mut blocks = lock(&self.blocks);
        if blocks.open.bytes() >= self.block {
            let next = blocks.open.next();
            let full = mem::replace(&mut blocks.open, next);
            blocks.full.push(full);
        }
        let bytes: usize = blocks.full.iter().map(B::bytes).sum();
        if bytes == 0 || bytes < self.resources.memory / 4 * B::QUARTERS {
            return Ok(());
        }
        let full = mem::take(&mut blocks.full);
        drop(blocks);
        let _one_at_a_time = lock(&self.spilling);
        let mut run = Appender::new(&self.resources.scratch, self.resources.write_size());
        B::write(&mut Merge::new(self.sort(full)), &mut run)?;
        let run = run.finish()?;
        lock(&self.blocks).runs.push(run);
        Ok(())
    }

    fn sort(&self, mut blocks: Vec<B>) -> Vec<B::Part> {
        workers::for_each(self.threads, &mut blocks, B::sort);
        blocks.into_iter().map(B::into_part).collect()
    }

    /// Returns all items, sorted.
    pub fn finish(self) -> Result<Merged<B::Part>> {
        self.resources.check_cancelled()?;
        let Blocks { open, mut full, runs } = mem::take(&mut *lock(&self.blocks));
        full.push(open);
        let mut parts = self.sort(full);
        let read_size = self.resources.read_size(runs.len());
        for run in runs {
            parts.push(B::open(run, read_size, &self.resources)?);
        }
        Ok(Merged { resources: self.resources, merge: Merge::new(parts), calls: 0 })
    }
}

/// Sorted items, which can be read once.
#[derive(Debug)]
pub struct Merged<S: Source> {
    resources: Arc<Resources>,
    merge: Merge<S>,
    calls: u64,
}

impl<S: Source> Merged<S> {
    /// Returns the merge. Call it for each item, because it checks the stop flag.
    #[inline]
    pub(crate) fn merge(&mut self) -> Result<&mut Merge<S>> {
        self.calls += 1;
        if self.calls % PATIENCE == 0 {
            self.resources.check_cancelled()?;
        }
        Ok(&mut self.merge)
    }
}

/// A source of sorted items, read in pieces.
pub trait Source: Sized {
    /// The part of an item that is compared first. The heap has copies of the keys.
    type Key: Copy + Ord + Debug;

    /// Returns the key of the current item, and `None` at the end.
    fn key(&self) -> Option<Self::Key>;
    /// Called if the keys are equal. Returns whether the current item of source `left` sorts before that of `right`.
    fn is_before(_sources: &[Self], _left: usize, _right: usize) -> bool {
        false
    }
    /// Skips the next `count` items, which must be in memory.
    fn advance(&mut self, count: usize) -> Result<()>;
}

#[derive(Debug)]
pub struct Merge<S: Source> {
    sources: Vec<S>,
    /// A min-heap of the sources by their current items, which takes few comparisons if there are few sources.
    heads: Vec<(S::Key, usize)>,
    /// Number of items that the last call returned, and that the next call skips.
    returned: usize,
}

impl<S: Source> Merge<S> {
    pub fn new(sources: Vec<S>) -> Self {
        let heads = sources.iter().enumerate();
        let heads = heads.filter_map(|(at, source)| Some((source.key()?, at))).collect();
        let mut merge = Self { sources, heads, returned: 0 };
        for at in (0..merge.heads.len() / 2).rev() {
            merge.sink(at);
        }
        merge
    }

    /// Returns the source whose current item is the least; `None` at the end. The next call skips that item.
    pub fn next_source(&mut self) -> Result<Option<&S>> {
        let returned = mem::replace(&mut self.returned, 1);
        if returned > 0 {
            self.advance(returned)?;
        }
        Ok(self.heads.first().map(|&(_, least)| &self.sources[least]))
    }

    #[inline]
    fn advance(&mut self, count: usize) -> Result<()> {
        let Some(head) = self.heads.first_mut() else { return Ok(()) };
        let source = &mut self.sources[head.1];
        source.advance(count)?;
        match source.key() {
            Some(key) => head.0 = key,
            None => drop(self.heads.swap_remove(0)),
        }
        self.sink(0);
        Ok(())
    }

    #[inline]
    fn less(&self, left: usize, right: usize) -> bool {
        let (left, right) = (self.heads[left], self.heads[right]);
        left.0 < right.0 || left.0 == right.0 && S::is_before(&self.sources, left.1, right.1)
    }

    #[inline]
    fn sink(&mut self, mut at: usize) {
        loop {
            let mut child = 2 * at + 1;
            if child + 1 < self.heads.len() && self.less(child + 1, child) {
                child += 1;
            }
            if child >= self.heads.len() || !self.less(child, at) {
                return;
            }
            self.heads.swap(at, child);
            at = child;
        }
    }
}

/// Sorted items, each of which is its own key: all of them in memory, or those that were last read from a run.
pub struct Part<'a, T: Clone> {
    items: Cow<'a, [T]>,
    /// Number of consumed `items`.
    passed: usize,
    run: Option<Box<dyn Run<T> + Send + 'a>>,
}

/// A run in the temporary file.
pub trait Run<T>: Debug {
    /// Appends the next items: at least one, except at the end.
    fn read(&mut self, items: &mut Vec<T>) -> Result<()>;
}

impl<'a, T: Copy> Part<'a, T> {
    pub fn in_memory(items: Cow<'a, [T]>) -> Self {
        Self { items, passed: 0, run: None }
    }

    pub fn spilled(run: impl Run<T> + Send + 'a) -> Result<Self> {
        let mut part = Self { items: Cow::Owned(Vec::new()), passed: 0, run: Some(Box::new(run)) };
        part.refill()?;
        Ok(part)
    }

    fn refill(&mut self) -> Result<()> {
        let Some(run) = &mut self.run else { return Ok(()) };
        let items = self.items.to_mut();
        items.clear();
        self.passed = 0;
        run.read(items)
    }
}

impl<T: Copy + Ord + Debug> Source for Part<'_, T> {
    type Key = T;

    #[inline]
    fn key(&self) -> Option<T> {
        self.items.get(self.passed).copied()
    }

    #[inline]
    fn advance(&mut self, count: usize) -> Result<()> {
        self.passed += count;
        if self.passed == self.items.len() { self.refill() } else { Ok(()) }
    }
}

impl<T: Copy + Ord + Debug> Merge<Part<'_, T>> {
    /// Returns the next items in order: the longest sequence in memory from a single source. Returns `None` at the end.
    pub fn next(&mut self) -> Result<Option<&[T]>> {
        self.next_source()?;
        let Some(&(_, least)) = self.heads.first() else { return Ok(None) };
        let bound = (1..self.heads.len().min(3)).map(|at| self.heads[at].0).min();
        let part = &self.sources[least];
        let items = &part.items[part.passed..];
        self.returned = bound.map_or(items.len(), |bound| count_up_to(items, &bound));
        Ok(Some(&items[..self.returned]))
    }

    /// Returns the next item in order; `None` at the end. Do not use it together with `next`.
    #[inline]
    pub fn pop(&mut self) -> Result<Option<T>> {
        let Some(&(item, _)) = self.heads.first() else { return Ok(None) };
        self.advance(1)?;
        Ok(Some(item))
    }
}

/// Returns how many of the sorted `items` are not greater than `bound`. The first item must not be greater.
fn count_up_to<T: Ord>(items: &[T], bound: &T) -> usize {
    let mut step = 1;
    while step < items.len() && items[step] <= *bound {
        step *= 2;
    }
    let (from, to) = (step / 2, step.min(items.len()));
    from + items[from..to].partition_point(|item| item <= bound)
}
