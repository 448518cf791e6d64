//! Many pages at a time, asked for before they are read.

use std::sync::Arc;

use disk::Buffer;

use crate::Result;
use crate::reader::View;
use crate::source::{PageSource, runs};

/// Bytes of neighbours that are read past the cache.
const LONG: usize = 128 << 10;
/// Pages between two that are read with them: a device takes no longer for them than for another request.
const NEAR: u64 = 8;

impl PageSource {
    /// The pages, in the order of `numbers`.
    pub fn views(&self, numbers: &[u64]) -> Result<Vec<View>> {
        let block = Arc::new(self.read_many(numbers)?);
        numbers.iter().enumerate().map(|(at, &number)| self.nth(&block, at, number)).collect()
    }

    /// The page at this place among those that were read together.
    pub fn nth(&self, block: &Arc<Buffer>, at: usize, number: u64) -> Result<View> {
        let size = self.layout.page_size;
        self.view_in(Arc::clone(block), at * size..(at + 1) * size, number)
    }

    /// Branches that will be read, between leaves that are read together.
    pub fn want_branches(&self, numbers: &[u64]) {
        runs(numbers).for_each(|run| self.want_only(run));
    }

    /// Pages that will be read now.
    pub fn want_many(&self, numbers: &[u64]) {
        let runs: Vec<_> = runs(numbers).collect();
        let mut short = Vec::new();
        for (at, &run) in runs.iter().enumerate() {
            if self.is_long(run.1) {
                continue;
            }
            if self.is_beside_long(&runs, at) {
                self.want_only(run);
            } else {
                short.push(run);
            }
        }
        for (first, count) in near(short) {
            self.want(first, count);
        }
    }

    /// Whether a run stands next to one that is read past the cache, with all that is around.
    fn is_beside_long(&self, runs: &[(u64, usize)], at: usize) -> bool {
        let (before, after) = (at.checked_sub(1).map(|one| runs[one]), runs.get(at + 1));
        let end = |run: (u64, usize)| run.0.saturating_add(run.1 as u64);
        before.is_some_and(|one| self.is_long(one.1) && is_near(end(one), runs[at].0))
            || after.is_some_and(|one| self.is_long(one.1) && is_near(end(runs[at]), one.0))
    }

    /// Whether a run is better read past the cache.
    fn is_long(&self, count: usize) -> bool {
        count * self.layout.page_size >= LONG
    }

    /// In the order of `numbers`, as they are.
    pub fn read_many(&self, numbers: &[u64]) -> Result<Buffer> {
        self.many(numbers, |count| self.is_long(count))
    }

    /// The same of what is on its way into the cache.
    pub fn read_many_cached(&self, numbers: &[u64]) -> Result<Buffer> {
        self.many(numbers, |_| false)
    }
}

/// Runs with what is between them, if that is little.
fn near(runs: Vec<(u64, usize)>) -> Vec<(u64, u64)> {
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
    first.checked_sub(end).is_some_and(|between| between <= NEAR)
}
