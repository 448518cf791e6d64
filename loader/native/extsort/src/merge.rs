//! Merging sorted sources.

use crate::Result;

/// A heap of sources, the one with the least head first. With few sources it is a few comparisons.
#[derive(Debug)]
pub(crate) struct Heads<K>(Vec<(K, usize)>);

impl<K: Copy> Heads<K> {
    /// `heads` are pairs of a head and the number of its source.
    pub fn new(
        heads: impl IntoIterator<Item = (K, usize)>,
        less: impl Fn(&(K, usize), &(K, usize)) -> bool,
    ) -> Self {
        let mut heads = Self(heads.into_iter().collect());
        for at in (0..heads.0.len() / 2).rev() {
            heads.sink(at, &less);
        }
        heads
    }

    /// The least head.
    #[inline]
    pub fn least(&self) -> Option<&(K, usize)> {
        self.0.first()
    }

    /// The least head of all others.
    #[inline]
    pub fn bound(&self, less: impl Fn(&(K, usize), &(K, usize)) -> bool) -> Option<&(K, usize)> {
        match (self.0.get(1), self.0.get(2)) {
            (Some(left), Some(right)) if less(right, left) => Some(right),
            (left, _) => left,
        }
    }

    /// The source with the least head has another one now, or none.
    #[inline]
    pub fn replace(&mut self, head: Option<K>, less: impl Fn(&(K, usize), &(K, usize)) -> bool) {
        match (head, self.0.first_mut()) {
            (Some(head), Some(first)) => first.0 = head,
            (None, Some(_)) => drop(self.0.swap_remove(0)),
            (_, None) => return,
        }
        self.sink(0, &less);
    }

    fn sink(&mut self, mut at: usize, less: &impl Fn(&(K, usize), &(K, usize)) -> bool) {
        let heap = &mut self.0;
        loop {
            let mut child = 2 * at + 1;
            if child + 1 < heap.len() && less(&heap[child + 1], &heap[child]) {
                child += 1;
            }
            if child >= heap.len() || !less(&heap[child], &heap[at]) {
                return;
            }
            heap.swap(at, child);
            at = child;
        }
    }
}

/// Sorted items that come piece by piece.
pub(crate) trait Source<T> {
    /// The items at hand; none only at the end.
    fn items(&self) -> &[T];
    /// Leaves the first `count` of the items at hand behind.
    fn advance(&mut self, count: usize) -> Result<()>;
}

/// Merges items that are equal only if they are the same.
#[derive(Debug)]
pub(crate) struct Merge<T, S> {
    sources: Vec<S>,
    heads: Heads<T>,
    /// How many items were returned last.
    taken: usize,
}

impl<T: Copy + Ord, S: Source<T>> Merge<T, S> {
    pub fn new(sources: Vec<S>) -> Self {
        let heads = sources.iter().enumerate();
        let heads = heads.filter_map(|(at, source)| Some((*source.items().first()?, at)));
        let heads = Heads::new(heads, Self::less);
        Self { sources, heads, taken: 0 }
    }

    fn less(one: &(T, usize), other: &(T, usize)) -> bool {
        one.0 < other.0
    }

    /// The next items in order: as many as one source has in a row. None at the end.
    pub fn next(&mut self) -> Result<Option<&[T]>> {
        if self.taken > 0 {
            self.leave_taken()?;
        }
        let Some(&(_, source)) = self.heads.least() else { return Ok(None) };
        let items = self.sources[source].items();
        self.taken = match self.heads.bound(Self::less) {
            Some((bound, _)) => in_a_row(items, bound),
            None => items.len(),
        };
        Ok(Some(&items[..self.taken]))
    }

    /// The next item in order. None at the end.
    #[inline]
    pub fn pop(&mut self) -> Result<Option<T>> {
        let Some(&(item, source)) = self.heads.least() else { return Ok(None) };
        self.sources[source].advance(1)?;
        self.heads.replace(self.sources[source].items().first().copied(), Self::less);
        Ok(Some(item))
    }

    fn leave_taken(&mut self) -> Result<()> {
        let Some(&(_, source)) = self.heads.least() else { return Ok(()) };
        self.sources[source].advance(std::mem::take(&mut self.taken))?;
        self.heads.replace(self.sources[source].items().first().copied(), Self::less);
        Ok(())
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
