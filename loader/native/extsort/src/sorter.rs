//! Fills blocks, sorts them, and merges them into runs when they exceed their share of memory.

use std::borrow::Cow;
use std::fmt::Debug;
use std::mem;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use common::lock;

use crate::Result;
use crate::scratch::{Appender, Resources};

/// Items read between two checks of the stop flag.
const PATIENCE: u64 = 1 << 16;

/// Items in memory.
pub trait Block: Default + Send {
    /// A sorted block, or a run.
    type Part: Source;
    /// Quarters of the memory that full blocks may use before they are spilled.
    const QUARTERS: usize;
    /// Minimum size of a full block, in bytes.
    const LEAST: usize;

    fn bytes(&self) -> usize;
    /// Returns an empty block with about the same capacity.
    fn next(&self) -> Self;
    fn sort(&mut self);
    fn into_part(self) -> Self::Part;
    fn write(merge: &mut Merge<Self::Part>, run: &mut Appender<'_>) -> Result<()>;
    fn open(run: Range<u64>, read_size: usize, means: &Arc<Resources>) -> Result<Self::Part>;
}

#[derive(Debug)]
pub struct Sorter<B> {
    means: Arc<Resources>,
    threads: usize,
    /// Size in bytes at which a block is full.
    pub(crate) block: usize,
    held: Mutex<Held<B>>,
    /// Locked by the thread that spills, so that others wait rather than use more memory.
    spilling: Mutex<()>,
}

#[derive(Debug, Default)]
struct Held<B> {
    open: B,
    full: Vec<B>,
    /// Ranges of the sorted runs in the temporary file.
    runs: Vec<Range<u64>>,
}

impl<B: Block> Sorter<B> {
    /// Uses about `memory` bytes, then a temporary file in `dir`, and up to `threads` threads to
    /// sort. When `stop` is raised, all calls end with [`Code::Cancelled`](common::Code::Cancelled).
    pub fn new(memory: usize, threads: usize, dir: &Path, stop: &Arc<AtomicBool>) -> Self {
        Self {
            means: Arc::new(Resources::new(memory, dir, stop)),
            threads: threads.max(1),
            block: (memory / 32).min(16 << 20).max(B::LEAST),
            held: Mutex::default(),
            spilling: Mutex::default(),
        }
    }

    /// Adds items to the open block with `add`, without locking.
    #[inline]
    pub(crate) fn add<T>(&mut self, add: impl FnOnce(&mut B) -> T) -> Result<T> {
        let open = &mut self.held.get_mut().unwrap_or_else(PoisonError::into_inner).open;
        let added = add(open);
        if open.bytes() >= self.block {
            self.settle()?;
        }
        Ok(added)
    }

    /// Like [`Self::add`], but callable from several threads at once.
    pub(crate) fn add_shared<T>(&self, add: impl FnOnce(&mut B) -> T) -> Result<T> {
        let mut held = lock(&self.held);
        let added = add(&mut held.open);
        let is_full = held.open.bytes() >= self.block;
        drop(held);
        if is_full {
            self.settle()?;
        }
        Ok(added)
    }

    /// Starts a new block; spills the full blocks if they exceed their share of memory.
    fn settle(&self) -> Result<()> {
        self.means.check_cancelled()?;
        let mut held = lock(&self.held);
        if held.open.bytes() >= self.block {
            let next = held.open.next();
            let full = mem::replace(&mut held.open, next);
            held.full.push(full);
        }
        let bytes: usize = held.full.iter().map(B::bytes).sum();
        if bytes == 0 || bytes < self.means.memory / 4 * B::QUARTERS {
            return Ok(());
        }
        let blocks = mem::take(&mut held.full);
        drop(held);
        let _one_at_a_time = lock(&self.spilling);
        let mut run = Appender::new(&self.means.scratch, self.means.write_size());
        B::write(&mut Merge::new(self.sort(blocks)), &mut run)?;
        let run = run.finish()?;
        lock(&self.held).runs.push(run);
        Ok(())
    }

    fn sort(&self, mut blocks: Vec<B>) -> Vec<B::Part> {
        workers::for_each(self.threads, &mut blocks, B::sort);
        blocks.into_iter().map(B::into_part).collect()
    }

    /// Returns the sorted items after the last one was added.
    pub fn finish(self) -> Result<Merged<B::Part>> {
        self.means.check_cancelled()?;
        let Held { open, mut full, runs } = mem::take(&mut *lock(&self.held));
        full.push(open);
        let mut parts = self.sort(full);
        let read_size = self.means.read_size(runs.len());
        for run in runs {
            parts.push(B::open(run, read_size, &self.means)?);
        }
        Ok(Merged { means: self.means, merge: Merge::new(parts), given: 0 })
    }
}

/// Sorted items, which can be read once.
#[derive(Debug)]
pub struct Merged<S: Source> {
    means: Arc<Resources>,
    merge: Merge<S>,
    given: u64,
}

impl<S: Source> Merged<S> {
    /// Returns the merge; must be called for each item, because it checks the stop flag.
    #[inline]
    pub(crate) fn merge(&mut self) -> Result<&mut Merge<S>> {
        self.given += 1;
        if self.given % PATIENCE == 0 {
            self.means.check_cancelled()?;
        }
        Ok(&mut self.merge)
    }
}

/// A source of sorted items, read in pieces.
pub trait Source: Sized {
    /// The part of an item that is compared first; the heap holds a copy.
    type Key: Copy + Ord + Debug;

    /// Returns the key of the current item; `None` only at the end.
    fn key(&self) -> Option<Self::Key>;
    /// Returns whether the current item of source `one` sorts before that of `other`, which has the same key.
    fn is_before(_sources: &[Self], _one: usize, _other: usize) -> bool {
        false
    }
    /// Skips the next `count` items, which must be in memory.
    fn advance(&mut self, count: usize) -> Result<()>;
}

#[derive(Debug)]
pub struct Merge<S: Source> {
    sources: Vec<S>,
    /// A min-heap of the sources by their current items; with few sources it takes few comparisons.
    heads: Vec<(S::Key, usize)>,
    /// Number of items returned last; the next call skips them.
    taken: usize,
}

impl<S: Source> Merge<S> {
    pub fn new(sources: Vec<S>) -> Self {
        let heads = sources.iter().enumerate();
        let heads = heads.filter_map(|(at, source)| Some((source.key()?, at))).collect();
        let mut merge = Self { sources, heads, taken: 0 };
        for at in (0..merge.heads.len() / 2).rev() {
            merge.sink(at);
        }
        merge
    }

    /// Returns the source with the least item, which counts as returned; `None` at the end.
    pub fn next_source(&mut self) -> Result<Option<&S>> {
        let taken = mem::replace(&mut self.taken, 1);
        if taken > 0 {
            self.advance(taken)?;
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
    fn less(&self, one: usize, other: usize) -> bool {
        let (one, other) = (self.heads[one], self.heads[other]);
        one.0 < other.0 || one.0 == other.0 && S::is_before(&self.sources, one.1, other.1)
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

/// Sorted items of which equal ones are identical: all in memory, or those read last from a run.
pub struct Part<'a, T: Clone> {
    items: Cow<'a, [T]>,
    /// Number of `items` already consumed.
    passed: usize,
    run: Option<Box<dyn Run<T> + Send + 'a>>,
}

/// A run in the temporary file.
pub trait Run<T>: Debug {
    /// Appends the next items; appends none only at the end.
    fn read(&mut self, items: &mut Vec<T>) -> Result<()>;
}

impl<'a, T: Copy> Part<'a, T> {
    pub fn held(items: Cow<'a, [T]>) -> Self {
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
    /// Returns the next items in order, as many as one source has in a row; `None` at the end.
    pub fn next(&mut self) -> Result<Option<&[T]>> {
        self.next_source()?;
        let Some(&(_, least)) = self.heads.first() else { return Ok(None) };
        let bound = (1..self.heads.len().min(3)).map(|at| self.heads[at].0).min();
        let part = &self.sources[least];
        let items = &part.items[part.passed..];
        self.taken = bound.map_or(items.len(), |bound| in_a_row(items, &bound));
        Ok(Some(&items[..self.taken]))
    }

    /// Returns the next item in order; must not be mixed with `next`. `None` at the end.
    #[inline]
    pub fn pop(&mut self) -> Result<Option<T>> {
        let Some(&(item, _)) = self.heads.first() else { return Ok(None) };
        self.advance(1)?;
        Ok(Some(item))
    }
}

/// Returns how many of the first `items` are at most `bound`; the first one is.
fn in_a_row<T: Ord>(items: &[T], bound: &T) -> usize {
    let mut step = 1;
    while step < items.len() && items[step] <= *bound {
        step *= 2;
    }
    let (from, to) = (step / 2, step.min(items.len()));
    from + items[from..to].partition_point(|item| item <= bound)
}
