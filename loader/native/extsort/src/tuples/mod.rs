//! Sorting small tuples of fixed size.

mod part;

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use bytemuck::Pod;
use common::lock;

use crate::Result;
use crate::memory::Resources;
use crate::merge::Merge;
use crate::scratch::Appender;
use part::{Part, Spilled};

/// Tuples given between two looks at the stop flag.
const PATIENCE: u64 = 1 << 16;
/// Sorts tuples such as `[u64; 4]`, which are equal only if all their bytes are.
///
/// ```
/// # use extsort::TupleSorter;
/// # use std::sync::Arc;
/// let mut sorter = TupleSorter::new(64 << 20, 2, "/tmp".as_ref(), &Arc::default());
/// sorter.push([2_u64, 1])?;
/// sorter.extend(&[[1, 2], [1, 1]])?;
/// let sorted = sorter.finish()?.collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(sorted, [[1, 1], [1, 2], [2, 1]]);
/// # Ok::<(), common::Error>(())
/// ```
#[derive(Debug)]
pub struct TupleSorter<T> {
    means: Arc<Resources>,
    threads: usize,
    /// Tuples in a block.
    block: usize,
    held: Mutex<Buffered<T>>,
    /// Held by the thread that spills, so that others wait rather than use more memory.
    spilling: Mutex<()>,
}

#[derive(Debug)]
struct Buffered<T> {
    open: Vec<T>,
    full: Vec<Vec<T>>,
    /// Where the sorted runs are in the temporary file.
    runs: Vec<Range<u64>>,
}

impl<T: Pod + Ord + Send> TupleSorter<T> {
    /// Uses about `memory` bytes, then a temporary file in `dir`, and up to `threads` threads to
    /// sort. When `stop` is raised, all calls end with [`Code::Cancelled`](common::Code::Cancelled).
    pub fn new(memory: usize, threads: usize, dir: &Path, stop: &Arc<AtomicBool>) -> Self {
        let block = (memory / 32).min(16 << 20) / size_of::<T>().max(1);
        Self {
            means: Arc::new(Resources::new(memory, dir, stop)),
            threads: threads.max(1),
            block: block.max(64),
            held: Mutex::new(Buffered { open: Vec::new(), full: Vec::new(), runs: Vec::new() }),
            spilling: Mutex::new(()),
        }
    }

    /// Adds a tuple; needs no lock.
    #[inline]
    pub fn push(&mut self, tuple: T) -> Result<()> {
        let held = self.held.get_mut().unwrap_or_else(PoisonError::into_inner);
        held.open.push(tuple);
        if held.open.len() < self.block { Ok(()) } else { self.settle() }
    }

    /// Adds many; several threads may do so at the same time.
    pub fn extend(&self, mut tuples: &[T]) -> Result<()> {
        while !tuples.is_empty() {
            let mut held = lock(&self.held);
            let room = self.block.saturating_sub(held.open.len());
            let (now, later) = tuples.split_at(tuples.len().min(room));
            held.open.extend_from_slice(now);
            let is_full = held.open.len() >= self.block;
            drop(held);
            if is_full {
                self.settle()?;
            }
            tuples = later;
        }
        Ok(())
    }

    /// Starts a new block, and spills all when they have half of the memory.
    fn settle(&self) -> Result<()> {
        self.means.check_cancelled()?;
        let mut held = lock(&self.held);
        if held.open.len() >= self.block {
            let next = Vec::with_capacity(self.block);
            let full = std::mem::replace(&mut held.open, next);
            held.full.push(full);
        }
        let bytes = held.full.len() * self.block * size_of::<T>();
        if bytes == 0 || bytes < self.means.memory / 2 {
            return Ok(());
        }
        let blocks = std::mem::take(&mut held.full);
        drop(held);
        let _one_at_a_time = lock(&self.spilling);
        let run = self.spill(blocks)?;
        lock(&self.held).runs.push(run);
        Ok(())
    }

    fn spill(&self, blocks: Vec<Vec<T>>) -> Result<Range<u64>> {
        let mut merge = Merge::new(self.sort(blocks));
        let mut run = Appender::new(&self.means.scratch, self.means.write_size());
        while let Some(items) = merge.next()? {
            run.put(bytemuck::cast_slice(items))?;
        }
        run.finish()
    }

    fn sort(&self, mut blocks: Vec<Vec<T>>) -> Vec<Part<T>> {
        workers::for_each(self.threads, &mut blocks, |block| block.sort_unstable());
        blocks.into_iter().map(|block| Part::Held { block, passed: 0 }).collect()
    }

    /// All is pushed.
    pub fn finish(mut self) -> Result<Tuples<T>> {
        self.means.check_cancelled()?;
        let held = self.held.get_mut().unwrap_or_else(PoisonError::into_inner);
        let (mut blocks, runs) = (std::mem::take(&mut held.full), std::mem::take(&mut held.runs));
        blocks.push(std::mem::take(&mut held.open));
        let mut parts = self.sort(blocks);
        let read_size = self.means.read_size(runs.len());
        for run in runs {
            parts.push(Part::Spilled(Spilled::open(run, read_size, &self.means)?));
        }
        Ok(Tuples { means: self.means, merge: Merge::new(parts), given: 0 })
    }
}

/// Sorted tuples, to be read once.
#[derive(Debug)]
pub struct Tuples<T> {
    means: Arc<Resources>,
    merge: Merge<T, Part<T>>,
    given: u64,
}

impl<T: Pod + Ord> Iterator for Tuples<T> {
    type Item = Result<T>;

    #[inline]
    fn next(&mut self) -> Option<Result<T>> {
        self.given += 1;
        if self.given % PATIENCE == 0 {
            if let Err(error) = self.means.check_cancelled() {
                return Some(Err(error));
            }
        }
        self.merge.pop().transpose()
    }
}
