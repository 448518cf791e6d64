//! Sorting byte records.

mod block;
mod merge;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::memory::Resources;
use crate::scratch::{Appender, Window};
use crate::{Result, too_large};
use block::Block;
use merge::{Merge, Part, load};

/// Sorts records by a prefix and then by their bytes.
///
/// ```
/// # use extsort::RecordSorter;
/// # use std::sync::Arc;
/// let mut sorter = RecordSorter::new(64 << 20, 2, "/tmp".as_ref(), &Arc::default());
/// sorter.push(7, b"b")?;
/// sorter.push(7, b"a")?;
/// let mut sorted = sorter.finish()?;
/// assert_eq!(sorted.next()?, Some((7, &b"a"[..])));
/// assert_eq!(sorted.next()?, Some((7, &b"b"[..])));
/// assert_eq!(sorted.next()?, None);
/// # Ok::<(), common::Error>(())
/// ```
#[derive(Debug)]
pub struct RecordSorter {
    means: Arc<Resources>,
    threads: usize,
    open: Block,
    full: Vec<Block>,
    /// Where the sorted runs are in the temporary file.
    runs: Vec<Range<u64>>,
}

impl RecordSorter {
    /// Uses about `memory` bytes, then a temporary file in `dir`, and up to `threads` threads to
    /// sort. When `stop` is raised, all calls end with [`Code::Cancelled`](common::Code::Cancelled).
    pub fn new(memory: usize, threads: usize, dir: &Path, stop: &Arc<AtomicBool>) -> Self {
        let means = Arc::new(Resources::new(memory, dir, stop));
        let (full, runs) = (Vec::new(), Vec::new());
        Self { means, threads: threads.max(1), open: Block::default(), full, runs }
    }

    /// Bytes from which on a block is full.
    fn block(&self) -> usize {
        (self.means.memory / 32).min(16 << 20)
    }

    /// Adds a record of less than 4 GiB.
    pub fn push(&mut self, prefix: u128, bytes: &[u8]) -> Result<()> {
        if self.open.size() >= self.block() {
            self.settle()?;
        }
        self.open.push(prefix, bytes).ok_or_else(too_large)
    }

    /// Starts a new block, and spills all when they have three quarters of the memory.
    fn settle(&mut self) -> Result<()> {
        self.means.check_cancelled()?;
        let next = self.open.next();
        self.full.push(std::mem::replace(&mut self.open, next));
        let held: usize = self.full.iter().map(Block::size).sum();
        if held < self.means.memory / 4 * 3 {
            return Ok(());
        }
        let run = self.spill()?;
        self.runs.push(run);
        Ok(())
    }

    fn spill(&mut self) -> Result<Range<u64>> {
        let mut merge = Merge::new(self.sort());
        let mut run = Appender::new(&self.means.scratch, self.means.write_size());
        while let Some((prefix, bytes)) = merge.next(&self.means)? {
            run.put(&prefix.to_le_bytes())?;
            // No record in a block is longer.
            run.put(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes())?;
            run.put(bytes)?;
        }
        run.finish()
    }

    fn sort(&mut self) -> Vec<Part> {
        let mut blocks = std::mem::take(&mut self.full);
        workers::for_each(self.threads, &mut blocks, Block::sort);
        blocks.into_iter().map(|block| Part::Held { block, passed: 0 }).collect()
    }

    /// All is pushed.
    pub fn finish(mut self) -> Result<Records> {
        self.means.check_cancelled()?;
        self.full.push(std::mem::take(&mut self.open));
        let mut parts = self.sort();
        let read_size = self.means.read_size(self.runs.len());
        for run in self.runs {
            let mut window = Window::new(run, read_size);
            load(&mut window, &self.means)?;
            parts.push(Part::Spilled(window));
        }
        Ok(Records { merge: Merge::new(parts), means: self.means })
    }
}

/// Sorted records, to be read once.
#[derive(Debug)]
pub struct Records {
    merge: Merge,
    means: Arc<Resources>,
}

impl Records {
    /// The prefix and the bytes of the next record. None at the end.
    #[allow(clippy::should_implement_trait)] // an iterator could not lend the bytes
    pub fn next(&mut self) -> Result<Option<(u128, &[u8])>> {
        self.merge.next(&self.means)
    }
}
