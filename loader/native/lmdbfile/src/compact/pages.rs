//! Reads many pages at a time, with readahead.

use std::sync::Arc;

use disk::Buffer;

use crate::Result;
use crate::reader::View;
use crate::source::{PageSource, runs};

/// Runs of pages of at least this many bytes are read past the page cache.
pub(super) const LONG_RUN: usize = 128 << 10;
/// Gaps of up to this many pages between runs are read with the runs, because that takes a device no longer than
/// another request.
const MAX_GAP: u64 = 8;

impl PageSource {
    /// Returns views of the pages in the order of `numbers`.
    pub fn views(&self, numbers: &[u64]) -> Result<Vec<View>> {
        let block = Arc::new(self.read_many(numbers, LONG_RUN)?);
        numbers.iter().enumerate().map(|(at, &number)| self.nth(&block, at, number)).collect()
    }

    /// Returns a view of page `number`, which is at index `at` of a block that `read_many` returned.
    pub fn nth(&self, block: &Arc<Buffer>, at: usize, number: u64) -> Result<View> {
        let size = self.layout.page_size;
        self.view_in(Arc::clone(block), at * size..(at + 1) * size, number)
    }

    /// Starts readahead of branches alone, because the leaves around them are read past the page cache.
    pub fn prefetch_branches(&self, numbers: &[u64]) {
        runs(numbers).for_each(|run| self.prefetch_run(run));
    }

    /// Starts readahead of pages that `read_many` reads next.
    pub fn prefetch_many(&self, numbers: &[u64]) {
        let runs: Vec<_> = runs(numbers).collect();
        let mut short = Vec::new();
        for (at, &run) in runs.iter().enumerate() {
            if self.is_long(run.1) {
                continue;
            }
            if self.is_next_to_long(&runs, at) {
                self.prefetch_run(run);
            } else {
                short.push(run);
            }
        }
        for (first, count) in merge_near(short) {
            self.prefetch(first, count);
        }
    }

    /// Returns whether run `at` is near a long run, which is read past the page cache.
    fn is_next_to_long(&self, runs: &[(u64, usize)], at: usize) -> bool {
        let (before, after) = (at.checked_sub(1).map(|before| runs[before]), runs.get(at + 1));
        let end = |run: (u64, usize)| run.0.saturating_add(run.1 as u64);
        before.is_some_and(|before| self.is_long(before.1) && is_near(end(before), runs[at].0))
            || after.is_some_and(|after| self.is_long(after.1) && is_near(end(runs[at]), after.0))
    }

    /// Returns whether a run of `count` pages is read past the page cache.
    fn is_long(&self, count: usize) -> bool {
        count * self.layout.page_size >= LONG_RUN
    }
}

/// Merges runs that have only small gaps between them. The result includes the gaps.
fn merge_near(runs: Vec<(u64, usize)>) -> Vec<(u64, u64)> {
    let mut spans: Vec<(u64, u64)> = Vec::new();
    for (first, count) in runs {
        let count = count as u64;
        match spans.last_mut() {
            Some((start, length)) if is_near(start.saturating_add(*length), first) => {
                *length = first - *start + count;
            }
            _ => spans.push((first, count)),
        }
    }
    spans
}

fn is_near(end: u64, first: u64) -> bool {
    first.checked_sub(end).is_some_and(|gap| gap <= MAX_GAP)
}
