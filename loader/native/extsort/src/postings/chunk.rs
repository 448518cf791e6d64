//! Postings of one index, parted by ranges of keys.

use std::ops::Range;

use super::item::Item;

pub(crate) const BUCKETS: usize = 256;
const BUCKET_BITS: u32 = BUCKETS.ilog2();

/// At most 32 items are in a block, so that half-empty last blocks waste little of a chunk.
const MOST_IN_BLOCK: usize = 32;

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
        let bucket = item.minus(self.base).shift_right(self.shift);
        bucket.min(I::from_low(BUCKETS as u64 - 1)).low() as usize
    }
}

/// Postings that one writer pushed, each straight into its bucket. A bucket is a chain of blocks, because nobody knows
/// beforehand how many postings it gets.
#[derive(Debug)]
pub(crate) struct Chunk<I> {
    pub writer: usize,
    /// None while all items are in the first bucket: the bounds follow from them.
    bounds: Option<BucketBounds<I>>,
    items: Vec<I>,
    /// Items that the chunk takes.
    room: usize,
    /// The block size is 2 to the power of this.
    bits: u32,
    /// By block: the next one of the bucket.
    after: Vec<u32>,
    /// By bucket: the first block.
    first: [u32; BUCKETS],
    /// By bucket: the place of the next item; at the end of a block, and at first 0, the bucket needs another block.
    next: [u32; BUCKETS],
}

#[allow(clippy::cast_possible_truncation, reason = "a chunk has fewer than 2^32 items")]
impl<I: Item> Chunk<I> {
    pub fn new(bytes: usize, writer: usize) -> Self {
        let room = bytes / size_of::<I>();
        // About half of each bucket's last block stays empty: an eighth of the room.
        let bits = (room / (4 * BUCKETS)).clamp(1, MOST_IN_BLOCK).ilog2();
        let (items, after) = (Vec::new(), Vec::new());
        let (first, next) = ([0; BUCKETS], [0; BUCKETS]);
        Self { writer, bounds: None, items, room, bits, after, first, next }
    }

    /// Takes all items, and leaves room for others with `bounds`.
    pub fn take(&mut self, bounds: Option<BucketBounds<I>>) -> Self {
        let empty = Self::new(self.room * size_of::<I>(), self.writer);
        std::mem::replace(self, Self { bounds, ..empty })
    }

    /// Adds an item to its bucket. False, and nothing added, if the chunk is full.
    #[inline]
    pub fn push(&mut self, item: I) -> bool {
        let bucket = self.bounds.map_or(0, |bounds| bounds.bucket(item));
        let mut at = self.next[bucket] as usize;
        if at & ((1 << self.bits) - 1) == 0 {
            let Some(start) = self.add_block(bucket) else { return false };
            at = start;
        }
        self.items[at] = item;
        self.next[bucket] = at as u32 + 1;
        true
    }

    /// Returns where the new block of a bucket starts.
    fn add_block(&mut self, bucket: usize) -> Option<usize> {
        let (start, size) = (self.items.len(), 1 << self.bits);
        if start + size > self.room {
            return None;
        }
        self.items.reserve_exact(self.room - start);
        self.items.resize(start + size, I::zeroed());
        let number = (start >> self.bits) as u32;
        self.after.push(number);
        match self.next[bucket] as usize {
            0 => self.first[bucket] = number,
            end => self.after[(end >> self.bits) - 1] = number,
        }
        Some(start)
    }

    pub fn bounds(&self) -> Option<BucketBounds<I>> {
        self.bounds
    }

    /// Whether so large a part of the room is used that the bounds of buckets may follow from the items.
    pub fn is_sample(&self) -> bool {
        self.items.len() > self.room / 16
    }

    pub fn bytes(&self) -> usize {
        size_of_val(&*self.items)
    }

    /// The items of a bucket in the order that they came in.
    pub fn bucket(&self, bucket: usize) -> Slices<'_, I> {
        let end = self.next[bucket] as usize;
        Slices { chunk: self, block: self.first[bucket] as usize, end }
    }

    /// Sorts a bucket, which stays in its blocks.
    pub fn sort(&mut self, bucket: usize) {
        let mut slices = self.bucket(bucket);
        let places: Vec<Range<usize>> = std::iter::from_fn(|| slices.place()).collect();
        let mut items = self.bucket(bucket).collect::<Vec<_>>().concat();
        items.sort_unstable();
        let mut rest = &items[..];
        for place in places {
            let (now, later) = rest.split_at(place.len());
            self.items[place].copy_from_slice(now);
            rest = later;
        }
    }
}

/// The blocks of a bucket.
#[derive(Debug)]
pub(crate) struct Slices<'a, I> {
    chunk: &'a Chunk<I>,
    block: usize,
    /// Of the last block; 0 when no block remains.
    end: usize,
}

impl<I: Item> Slices<'_, I> {
    fn place(&mut self) -> Option<Range<usize>> {
        let (bits, block) = (self.chunk.bits, self.block);
        let last = self.end.checked_sub(1)? >> bits;
        self.block = self.chunk.after[block] as usize;
        let end = if block == last { std::mem::take(&mut self.end) } else { (block + 1) << bits };
        Some(block << bits..end)
    }
}

impl<'a, I: Item> Iterator for Slices<'a, I> {
    type Item = &'a [I];

    #[inline]
    fn next(&mut self) -> Option<&'a [I]> {
        self.place().map(|place| &self.chunk.items[place])
    }
}

/// Slices of a bucket of `chunks`, which are in the order of their writers. If positions ascend in each writer, then so
/// they do in all slices together, which is half of the sorting.
pub(crate) fn gather<I: Item>(chunks: &[Chunk<I>], bucket: usize) -> Vec<&[I]> {
    let writers = chunks.chunk_by(|one, other| one.writer == other.writer);
    let mut streams: Vec<_> = writers
        .map(|chunks| chunks.iter().flat_map(|chunk| chunk.bucket(bucket)))
        .filter_map(|mut later| Some((later.next()?, later)))
        .collect();
    let mut gathered = Vec::new();
    while !streams.is_empty() {
        let (least, bound) = least(streams.iter().map(|(now, _)| now[0].position()));
        let (now, later) = &mut streams[least];
        let is_next = |item: &&I| item.position() <= bound;
        let whole = now.last().is_some_and(|last| is_next(&last));
        let count = if whole { now.len() } else { now.iter().take_while(is_next).count() };
        gathered.push(&now[..count]);
        *now = &now[count..];
        if now.is_empty() {
            match later.next() {
                Some(next) => *now = next,
                None => drop(streams.swap_remove(least)),
            }
        }
    }
    gathered
}

/// Where the least position is, and the least of all others.
fn least(heads: impl Iterator<Item = u32>) -> (usize, u32) {
    let (mut least, mut position, mut bound) = (0, u32::MAX, u32::MAX);
    for (at, head) in heads.enumerate() {
        if head < position {
            (least, position, bound) = (at, head, position);
        } else {
            bound = bound.min(head);
        }
    }
    (least, bound)
}
