//! Merging sorted sources.

use std::borrow::Cow;
use std::fmt::Debug;
use std::mem;

use crate::Result;

/// Sorted items that come piece by piece.
pub trait Source: Sized {
    /// By which items are compared first: the heap has a copy of it.
    type Key: Copy + Ord + Debug;

    /// That of the item at hand; none only at the end.
    fn key(&self) -> Option<Self::Key>;
    /// Whether the item at hand of source `one` comes before that of `other`, which has the same key.
    fn is_before(_sources: &[Self], _one: usize, _other: usize) -> bool {
        false
    }
    /// Leaves the next `count` items behind, all of them at hand.
    fn advance(&mut self, count: usize) -> Result<()>;
}

#[derive(Debug)]
pub struct Merge<S: Source> {
    sources: Vec<S>,
    /// A heap, the source with the least item first. With few sources it is a few comparisons.
    heads: Vec<(S::Key, usize)>,
    /// How many items were returned last; they are still at hand.
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

    /// The source with the least item, which counts as returned. None at the end.
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

/// Sorted items that are equal only if they are the same: all in memory, or those of a run that were read last.
#[derive(Debug)]
pub struct Part<'a, T: Clone> {
    items: Cow<'a, [T]>,
    /// How many of `items` are left behind.
    passed: usize,
    run: Option<Box<dyn Run<T> + Send + 'a>>,
}

/// A run in the temporary file.
pub trait Run<T>: Debug {
    /// Appends the next items; none only at the end.
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
    /// The next items in order: as many as one source has in a row. None at the end.
    pub fn next(&mut self) -> Result<Option<&[T]>> {
        self.next_source()?;
        let Some(&(_, least)) = self.heads.first() else { return Ok(None) };
        let bound = (1..self.heads.len().min(3)).map(|at| self.heads[at].0).min();
        let part = &self.sources[least];
        let items = &part.items[part.passed..];
        self.taken = bound.map_or(items.len(), |bound| in_a_row(items, &bound));
        Ok(Some(&items[..self.taken]))
    }

    /// The next item in order, where all are taken so. None at the end.
    #[inline]
    pub fn pop(&mut self) -> Result<Option<T>> {
        let Some(&(item, _)) = self.heads.first() else { return Ok(None) };
        self.advance(1)?;
        Ok(Some(item))
    }
}

/// How many of `items`, of which the first is, are at most `bound`.
fn in_a_row<T: Ord>(items: &[T], bound: &T) -> usize {
    let mut step = 1;
    while step < items.len() && items[step] <= *bound {
        step *= 2;
    }
    let (from, to) = (step / 2, step.min(items.len()));
    from + items[from..to].partition_point(|item| item <= bound)
}
