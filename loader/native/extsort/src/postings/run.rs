//! Sorted postings in the temporary file: each as the difference from the one before, in groups of
//! seven bits (LEB128), so that entries in a row under one key cost a byte each.

use super::chunk::{BUCKETS, Chunk, gather};
use super::item::Item;
use super::radix;
use crate::Result;
use crate::merge::{Part, Run};
use crate::scratch::{Resources, Window};

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
        while rest >> 7 != I::zeroed() {
            bytes.push(rest.low().to_le_bytes()[0] | 0x80);
            rest = rest >> 7;
        }
        bytes.push(rest.low().to_le_bytes()[0]);
    }
}

/// The item after `last`, and the bytes after it. None if there is no whole one.
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

/// An extent that is read little by little.
pub(crate) fn part<I: Item>(
    extent: Extent,
    read_size: usize,
    means: &Resources,
) -> Result<Part<'_, I>> {
    let window = Window::new(extent.offset..extent.offset + extent.len as u64, read_size);
    Part::spilled(Reader { means, window, left: extent.items, last: I::zeroed() })
}

#[derive(Debug)]
struct Reader<'a, I> {
    means: &'a Resources,
    window: Window,
    /// How many are not decoded yet.
    left: usize,
    last: I,
}

impl<I: Item> Run<I> for Reader<'_, I> {
    fn read(&mut self, items: &mut Vec<I>) -> Result<()> {
        for _ in 0..self.left.min(DECODED) {
            let bytes = self.window.peek(LONGEST, &self.means.scratch)?;
            let decoded = decode_one(bytes, self.last);
            let (item, rest) = decoded.ok_or_else(|| self.means.scratch.damaged())?;
            let len = bytes.len() - rest.len();
            self.window.pass(len);
            self.last = item;
            items.push(item);
        }
        self.left -= items.len();
        Ok(())
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
        assert!(part::<u64>(Extent { offset, len: 3, items: 3 }, 4096, &means).is_err());
    }
}
