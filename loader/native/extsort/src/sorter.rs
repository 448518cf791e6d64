//! Blocks that are filled, sorted, and merged into runs when they have too much of the memory.

use std::fmt::Debug;
use std::mem;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use common::lock;

use crate::Result;
use crate::merge::{Merge, Source};
use crate::scratch::{Appender, Resources};

/// Items read between two looks at the stop flag.
const PATIENCE: u64 = 1 << 16;

/// Items in memory.
pub trait Block: Default + Send {
    /// A sorted block, or a run.
    type Part: Source;
    /// How many quarters of the memory full blocks have before they are spilled.
    const QUARTERS: usize;
    /// Bytes of a full block, at least.
    const LEAST: usize;

    fn bytes(&self) -> usize;
    /// An empty one with room for about as much.
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
    /// Bytes from which on a block is full.
    pub(crate) block: usize,
    held: Mutex<Held<B>>,
    /// Held by the thread that spills, so that others wait rather than use more memory.
    spilling: Mutex<()>,
}

#[derive(Debug, Default)]
struct Held<B> {
    open: B,
    full: Vec<B>,
    /// Where the sorted runs are in the temporary file.
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

    /// Adds with `add` to the open block; needs no lock.
    #[inline]
    pub(crate) fn add<T>(&mut self, add: impl FnOnce(&mut B) -> T) -> Result<T> {
        let open = &mut self.held.get_mut().unwrap_or_else(PoisonError::into_inner).open;
        let added = add(open);
        if open.bytes() >= self.block {
            self.settle()?;
        }
        Ok(added)
    }

    /// The same, which several threads may do at the same time.
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

    /// Starts a new block, and spills all that are full when they have too much of the memory.
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

    /// All is pushed.
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

/// What was sorted, to be read once.
#[derive(Debug)]
pub struct Merged<S: Source> {
    means: Arc<Resources>,
    merge: Merge<S>,
    given: u64,
}

impl<S: Source> Merged<S> {
    /// To be called for each item.
    #[inline]
    pub(crate) fn merge(&mut self) -> Result<&mut Merge<S>> {
        self.given += 1;
        if self.given % PATIENCE == 0 {
            self.means.check_cancelled()?;
        }
        Ok(&mut self.merge)
    }
}
