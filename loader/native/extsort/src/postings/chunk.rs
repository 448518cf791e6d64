//! Postings of one index, parted by ranges of keys.

use std::ops::Range;

use super::item::Item;

pub(crate) const BUCKETS: usize = 256;
const BUCKET_BITS: u32 = BUCKETS.ilog2();

/// Which items go to which bucket. Buckets are in the order of the items, so any split is right;
/// the one made from the first items of an index is mostly an even one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BucketBounds<I> {
    base: I,
    shift: u32,
}

impl<I: Item> BucketBounds<I> {
    /// Even between the least and the greatest of `items`.
    pub fn new(items: &[I]) -> Self {
        let base = items.iter().copied().min().unwrap_or(I::zeroed());
        let most = items.iter().copied().max().unwrap_or(base);
        let width = I::BITS - most.minus(base).leading_zeros();
        Self { base, shift: width.saturating_sub(BUCKET_BITS) }
    }

    /// What is beyond the range that this was made for is in the first or in the last bucket.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // less than BUCKETS
    fn bucket(self, item: I) -> usize {
        let bucket = item.minus(self.base) >> self.shift;
        bucket.min(I::from(BUCKETS as u64 - 1)).low() as usize
    }
}

#[derive(Debug)]
pub(crate) struct Chunk<I> {
    /// Who pushed the items.
    pub writer: usize,
    items: Vec<I>,
    /// Where each bucket starts, and the end.
    starts: Vec<usize>,
}

impl<I: Item> Chunk<I> {
    /// Items of a bucket stay in the order that they come in.
    pub fn new(split: BucketBounds<I>, items: &[I], writer: usize) -> Self {
        let mut next = [0; BUCKETS];
        for &item in items {
            next[split.bucket(item)] += 1;
        }
        let mut starts = vec![0; BUCKETS + 1];
        for (bucket, place) in next.iter_mut().enumerate() {
            starts[bucket + 1] = starts[bucket] + *place;
            *place = starts[bucket];
        }
        let mut parted = vec![I::zeroed(); items.len()];
        for &item in items {
            let place = &mut next[split.bucket(item)];
            parted[*place] = item;
            *place += 1;
        }
        Self { writer, items: parted, starts }
    }

    pub fn bytes(&self) -> usize {
        size_of_val(&*self.items) + size_of_val(&*self.starts)
    }

    pub fn bucket(&self, bucket: usize) -> &[I] {
        &self.items[self.range(bucket)]
    }

    pub fn bucket_mut(&mut self, bucket: usize) -> &mut [I] {
        let range = self.range(bucket);
        &mut self.items[range]
    }

    fn range(&self, bucket: usize) -> Range<usize> {
        self.starts[bucket]..self.starts[bucket + 1]
    }
}

/// What remains of a bucket of the chunks of one writer.
struct Stream<'a, I> {
    now: &'a [I],
    later: std::slice::Iter<'a, Chunk<I>>,
    bucket: usize,
}

impl<'a, I: Item> Stream<'a, I> {
    /// None if there is nothing.
    fn new(chunks: &'a [Chunk<I>], bucket: usize) -> Option<Self> {
        let stream = Self { now: &[], later: chunks.iter(), bucket };
        stream.next()
    }

    fn next(mut self) -> Option<Self> {
        while self.now.is_empty() {
            self.now = self.later.next()?.bucket(self.bucket);
        }
        Some(self)
    }
}

/// Appends a bucket of `chunks`, which are in the order of their writers, to `items`. If positions
/// ascend in each writer, then so they do in `items`, which is half of the sorting.
pub(crate) fn gather<I: Item>(chunks: &[Chunk<I>], bucket: usize, items: &mut Vec<I>) {
    let streams = chunks.chunk_by(|one, other| one.writer == other.writer);
    let mut streams: Vec<_> = streams.filter_map(|chunks| Stream::new(chunks, bucket)).collect();
    while !streams.is_empty() {
        let (least, bound) = least(&streams);
        let mut stream = streams.swap_remove(least);
        let count = stream.now.iter().take_while(|item| item.position() <= bound).count();
        let (now, later) = stream.now.split_at(count);
        items.extend_from_slice(now);
        stream.now = later;
        streams.extend(stream.next());
    }
}

/// The stream with the least position at its head, and the least position of all others.
fn least<I: Item>(streams: &[Stream<'_, I>]) -> (usize, u32) {
    let (mut least, mut position, mut bound) = (0, u32::MAX, u32::MAX);
    for (at, stream) in streams.iter().enumerate() {
        let head = stream.now[0].position();
        if head < position {
            (least, position, bound) = (at, head, position);
        } else {
            bound = bound.min(head);
        }
    }
    (least, bound)
}
