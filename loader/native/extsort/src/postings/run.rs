//! The postings of one index, divided into buckets by ranges of keys, and sorted runs in the temporary file. A run
//! stores each posting as the difference to the previous one in LEB128: adjacent positions of a key take one byte each.

use std::ops::Range;
use std::slice::Iter;

use super::item;
use super::item::Item;
use crate::Result;
use crate::scratch::{Resources, Window};
use crate::sorter::{Part, Run};

/// The location of a run's bucket in the temporary file.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Extent {
    /// Offset in bytes.
    offset: u64,
    /// Length in bytes.
    len: usize,
    /// Number of items.
    pub items: usize,
}

/// Maximum size of an encoded item in bytes.
const LONGEST: usize = 19;
/// Number of items that are decoded at a time.
const DECODED: usize = 256;

/// Sorts chunks and writes them as a run. Returns the extent of each bucket.
pub(crate) fn spill<I: Item>(chunks: &[Chunk<I>], resources: &Resources) -> Result<Vec<Extent>> {
    let mut extents = vec![Extent::default(); BUCKETS];
    let (mut items, mut spare, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    let mut first_unwritten = 0;
    for bucket in 0..BUCKETS {
        resources.check_cancelled()?;
        items.clear();
        gather(chunks, bucket, &mut items);
        item::sort(&mut items, &mut spare);
        let start = bytes.len();
        encode(&items, &mut bytes);
        // Until `bytes` is written to the file, the offset of the extent is relative to `bytes`.
        let len = bytes.len() - start;
        extents[bucket] = Extent { offset: start as u64, len, items: items.len() };
        if bytes.len() >= resources.write_size() || bucket + 1 == BUCKETS {
            let offset = resources.scratch.append(&bytes)?;
            bytes.clear();
            extents[first_unwritten..=bucket].iter_mut().for_each(|extent| extent.offset += offset);
            first_unwritten = bucket + 1;
        }
    }
    Ok(extents)
}

fn encode<I: Item>(items: &[I], bytes: &mut Vec<u8>) {
    let mut last = I::zeroed();
    for &item in items {
        let mut rest = item.minus(last);
        last = item;
        while rest >> 7 != I::zeroed() {
            bytes.push(rest.low().to_le_bytes()[0] | 0x80);
            rest = rest >> 7;
        }
        bytes.push(rest.low().to_le_bytes()[0]);
    }
}

/// Decodes the item after `last`. Returns it with the remaining bytes; `None` if the item is incomplete.
#[inline]
fn decode_one<I: Item>(bytes: &[u8], last: I) -> Option<(I, &[u8])> {
    let (mut difference, mut shift) = (I::zeroed(), 0);
    for (at, &byte) in bytes.iter().enumerate().take(LONGEST) {
        if shift >= I::BITS {
            return None;
        }
        difference = difference | I::from(u64::from(byte & 0x7f)) << shift;
        if byte < 0x80 {
            return Some((last.plus(difference)?, &bytes[at + 1..]));
        }
        shift += 7;
    }
    None
}

/// Appends the items of an extent to `items`.
pub(crate) fn read<I: Item>(
    extent: Extent,
    resources: &Resources,
    bytes: &mut Vec<u8>,
    items: &mut Vec<I>,
) -> Result<()> {
    bytes.resize(extent.len, 0);
    resources.scratch.read(bytes, extent.offset)?;
    let (mut rest, mut last) = (&bytes[..], I::zeroed());
    for _ in 0..extent.items {
        (last, rest) = decode_one(rest, last).ok_or_else(|| resources.scratch.damaged())?;
        items.push(last);
    }
    if rest.is_empty() { Ok(()) } else { Err(resources.scratch.damaged()) }
}

/// Returns a source that reads the items of an extent in small pieces.
pub(crate) fn part<I: Item>(extent: Extent, read_size: usize, resources: &Resources) -> Result<Part<'_, I>> {
    let window = Window::new(extent.offset..extent.offset + extent.len as u64, read_size);
    Part::spilled(Reader { resources, window, remaining: extent.items, last: I::zeroed() })
}

#[derive(Debug)]
struct Reader<'a, I> {
    resources: &'a Resources,
    window: Window,
    /// Number of items that are not decoded yet.
    remaining: usize,
    last: I,
}

impl<I: Item> Run<I> for Reader<'_, I> {
    fn read(&mut self, items: &mut Vec<I>) -> Result<()> {
        for _ in 0..self.remaining.min(DECODED) {
            let bytes = self.window.peek(LONGEST, &self.resources.scratch)?;
            let decoded = decode_one(bytes, self.last);
            let (item, rest) = decoded.ok_or_else(|| self.resources.scratch.damaged())?;
            let len = bytes.len() - rest.len();
            self.window.pass(len);
            self.last = item;
            items.push(item);
        }
        self.remaining -= items.len();
        Ok(())
    }
}

pub(crate) const BUCKETS: usize = 256;
const BUCKET_BITS: u32 = BUCKETS.ilog2();

/// The bounds of the buckets, computed from the first items of an index, so that most buckets have a similar size. Any
/// bounds are correct, because the buckets together are in the order of the items.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BucketBounds<I> {
    base: I,
    shift: u32,
}

impl<I: Item> BucketBounds<I> {
    /// Divides the range from the least to the greatest of `items` evenly.
    pub fn new(items: &[I]) -> Self {
        let base = items.iter().copied().min().unwrap_or(I::zeroed());
        let greatest = items.iter().copied().max().unwrap_or(base);
        let width = I::BITS - greatest.minus(base).leading_zeros();
        Self { base, shift: width.saturating_sub(BUCKET_BITS) }
    }

    /// Returns the bucket of an item. Items outside of the divided range go to the first or the last bucket.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "less than BUCKETS")]
    fn bucket(self, item: I) -> usize {
        let bucket = item.minus(self.base) >> self.shift;
        bucket.min(I::from(BUCKETS as u64 - 1)).low() as usize
    }
}

#[derive(Debug)]
pub(crate) struct Chunk<I> {
    /// Number of the writer that pushed the items.
    pub writer: usize,
    items: Vec<I>,
    /// The start of each bucket, and the end of the last one.
    starts: Vec<usize>,
}

impl<I: Item> Chunk<I> {
    /// Divides items among buckets, and keeps their order in each.
    pub fn new(bounds: BucketBounds<I>, items: &[I], writer: usize) -> Self {
        let mut next = [0; BUCKETS];
        for &item in items {
            next[bounds.bucket(item)] += 1;
        }
        let mut starts = vec![0; BUCKETS + 1];
        for (bucket, count) in next.iter_mut().enumerate() {
            starts[bucket + 1] = starts[bucket] + *count;
            *count = starts[bucket];
        }
        let mut divided = vec![I::zeroed(); items.len()];
        for &item in items {
            let at = &mut next[bounds.bucket(item)];
            divided[*at] = item;
            *at += 1;
        }
        Self { writer, items: divided, starts }
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

/// Appends the items of one bucket from all `chunks`, which must be sorted by writer. If the positions of each writer
/// ascend, the appended positions ascend too, and half of the sorting is done.
pub(crate) fn gather<I: Item>(chunks: &[Chunk<I>], bucket: usize, items: &mut Vec<I>) {
    // For each writer: the remaining items of the current chunk, and the chunks after it.
    let mut streams = Vec::new();
    for chunks in chunks.chunk_by(|left, right| left.writer == right.writer) {
        let mut later = chunks.iter();
        streams.extend(next(&mut later, bucket).map(|now| (now, later)));
    }
    while !streams.is_empty() {
        let (least, bound) = least(streams.iter().map(|(now, _)| now[0].position()));
        let (now, mut later) = streams.swap_remove(least);
        let count = now.iter().take_while(|item| item.position() <= bound).count();
        let (now, rest) = now.split_at(count);
        items.extend_from_slice(now);
        let rest = if rest.is_empty() { next(&mut later, bucket) } else { Some(rest) };
        streams.extend(rest.map(|rest| (rest, later)));
    }
}

/// Returns the index of the least position, and the least of all other positions.
fn least(positions: impl Iterator<Item = u32>) -> (usize, u32) {
    let (mut least, mut position, mut bound) = (0, u32::MAX, u32::MAX);
    for (at, head) in positions.enumerate() {
        if head < position {
            (least, position, bound) = (at, head, position);
        } else {
            bound = bound.min(head);
        }
    }
    (least, bound)
}

/// Finds the next chunk that has items in `bucket`, and returns these items.
fn next<'c, I: Item>(later: &mut Iter<'c, Chunk<I>>, bucket: usize) -> Option<&'c [I]> {
    later.map(|chunk| chunk.bucket(bucket)).find(|items| !items.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_entries_take_a_byte_each() {
        let mut bytes = Vec::new();
        encode(&(7 << 32..(7 << 32) + 1000).collect::<Vec<u64>>(), &mut bytes);
        assert_eq!(bytes.len(), 999 + 5);
    }

    #[test]
    fn damage_is_found() {
        assert_eq!(decode_one::<u64>(&[0x80, 0x80], 0), None);
        assert_eq!(decode_one::<u64>(&[0xff; 30], 0), None);
        assert_eq!(decode_one::<u64>(&[1], u64::MAX), None);
        let resources = Resources::new(1 << 20, &std::env::temp_dir(), &std::sync::Arc::default());
        let offset = resources.scratch.append(&[1, 2, 0x80]).unwrap();
        for items in [1, 3] {
            let extent = Extent { offset, len: 3, items };
            let error = read::<u64>(extent, &resources, &mut Vec::new(), &mut Vec::new()).unwrap_err();
            assert!(error.to_string().ends_with("its contents have changed"));
        }
        assert!(part::<u64>(Extent { offset, len: 3, items: 3 }, 4096, &resources).is_err());
    }
}
