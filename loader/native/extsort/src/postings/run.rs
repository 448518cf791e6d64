//! Sorted postings in the temporary file: each as the difference from the one before, in groups of
//! seven bits (LEB128), so that entries in a row under one key cost a byte each.

use super::chunk::{BUCKETS, Chunk, gather};
use super::item::Item;
use super::radix;
use crate::Result;
use crate::memory::Resources;
use crate::merge::Source;
use crate::scratch::Window;

/// Where a bucket of a run is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Extent {
    /// In bytes.
    offset: u64,
    len: usize,
    pub items: usize,
}

/// The longest form of an item.
const LONGEST: usize = 19;
/// Items that are decoded at once.
const DECODED: usize = 256;

/// Sorts chunks of one index and writes them. Returns the extent of each bucket.
pub(crate) fn spill<I: Item>(chunks: &[Chunk<I>], means: &Resources) -> Result<Vec<Extent>> {
    let mut extents = vec![Extent::default(); BUCKETS];
    let (mut items, mut spare, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    let mut unwritten = 0;
    for bucket in 0..BUCKETS {
        means.check_cancelled()?;
        items.clear();
        gather(chunks, bucket, &mut items);
        radix::sort(&mut items, &mut spare);
        let start = bytes.len();
        encode(&items, &mut bytes);
        // The offset is that in `bytes` until these are written.
        let len = bytes.len() - start;
        extents[bucket] = Extent { offset: start as u64, len, items: items.len() };
        if bytes.len() >= means.write_size() || bucket + 1 == BUCKETS {
            let offset = means.scratch.append(&bytes)?;
            bytes.clear();
            extents[unwritten..=bucket].iter_mut().for_each(|extent| extent.offset += offset);
            unwritten = bucket + 1;
        }
    }
    Ok(extents)
}

fn encode<I: Item>(items: &[I], bytes: &mut Vec<u8>) {
    let mut last = I::zeroed();
    for &item in items {
        let mut rest = item.minus(last);
        last = item;
        while rest.shift_right(7) != I::zeroed() {
            bytes.push(low_byte(rest) | 0x80);
            rest = rest.shift_right(7);
        }
        bytes.push(low_byte(rest));
    }
}

#[allow(clippy::cast_possible_truncation)] // as it says
fn low_byte<I: Item>(item: I) -> u8 {
    item.low() as u8
}

/// The item after `last`, and the bytes after it. None if there is no whole one.
#[inline]
fn decode_one<I: Item>(bytes: &[u8], last: I) -> Option<(I, &[u8])> {
    let (mut difference, mut shift) = (I::zeroed(), 0);
    for (at, &byte) in bytes.iter().enumerate().take(LONGEST) {
        if shift >= I::BITS {
            return None;
        }
        difference = difference.or(I::from_low(u64::from(byte & 0x7f)).shift_left(shift));
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
    means: &Resources,
    bytes: &mut Vec<u8>,
    items: &mut Vec<I>,
) -> Result<()> {
    bytes.resize(extent.len, 0);
    means.scratch.read(bytes, extent.offset)?;
    let (mut rest, mut last) = (&bytes[..], I::zeroed());
    for _ in 0..extent.items {
        (last, rest) = decode_one(rest, last).ok_or_else(|| means.scratch.damaged())?;
        items.push(last);
    }
    if rest.is_empty() { Ok(()) } else { Err(means.scratch.damaged()) }
}

/// Reads an extent little by little.
#[derive(Debug)]
pub(crate) struct Reader<'a, I> {
    means: &'a Resources,
    window: Window,
    /// How many are not decoded yet.
    left: usize,
    items: Vec<I>,
    /// How many of `items` are left behind.
    passed: usize,
    last: I,
}

impl<'a, I: Item> Reader<'a, I> {
    pub fn new(extent: Extent, read_size: usize, means: &'a Resources) -> Result<Self> {
        let window = Window::new(extent.offset..extent.offset + extent.len as u64, read_size);
        let (left, items) = (extent.items, Vec::with_capacity(DECODED));
        let mut reader = Self { means, window, left, items, passed: 0, last: I::zeroed() };
        reader.decode()?;
        Ok(reader)
    }

    fn decode(&mut self) -> Result<()> {
        self.items.clear();
        self.passed = 0;
        for _ in 0..self.left.min(DECODED) {
            let bytes = self.window.peek(LONGEST, &self.means.scratch)?;
            let decoded = decode_one(bytes, self.last);
            let (item, rest) = decoded.ok_or_else(|| self.means.scratch.damaged())?;
            let len = bytes.len() - rest.len();
            self.window.pass(len);
            self.last = item;
            self.items.push(item);
        }
        self.left -= self.items.len();
        Ok(())
    }
}

impl<I: Item> Source<I> for Reader<'_, I> {
    fn items(&self) -> &[I] {
        &self.items[self.passed..]
    }

    fn advance(&mut self, count: usize) -> Result<()> {
        self.passed += count;
        if self.passed == self.items.len() { self.decode() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postings::item::pack_long;

    #[test]
    fn entries_in_a_row_cost_a_byte_each() {
        let mut bytes = Vec::new();
        encode(&(7 << 32..(7 << 32) + 1000).collect::<Vec<u64>>(), &mut bytes);
        assert_eq!(bytes.len(), 999 + 5);
    }

    #[test]
    fn the_greatest_items_are_read_back() {
        let items = [1, 1, pack_long(u64::MAX, 8, 0), u128::MAX];
        let mut bytes = Vec::new();
        encode(&items, &mut bytes);
        let (mut rest, mut last) = (&bytes[..], 0);
        for item in items {
            (last, rest) = decode_one(rest, last).unwrap();
            assert_eq!(last, item);
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn damage_is_found() {
        assert_eq!(decode_one::<u64>(&[0x80, 0x80], 0), None);
        assert_eq!(decode_one::<u64>(&[0xff; 30], 0), None);
        assert_eq!(decode_one::<u64>(&[1], u64::MAX), None);
        let means = Resources::new(1 << 20, &std::env::temp_dir(), &std::sync::Arc::default());
        let offset = means.scratch.append(&[1, 2, 0x80]).unwrap();
        for items in [1, 3] {
            let extent = Extent { offset, len: 3, items };
            let error = read::<u64>(extent, &means, &mut Vec::new(), &mut Vec::new()).unwrap_err();
            assert!(error.to_string().ends_with("its contents have changed"));
        }
        assert!(Reader::<u64>::new(Extent { offset, len: 3, items: 3 }, 4096, &means).is_err());
    }
}
