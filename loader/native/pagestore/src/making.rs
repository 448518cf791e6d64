//! Pages that become a frame.

use common::Result;

use crate::contexts::compressed;
use crate::entry::{Entry, flags};
use crate::page::{PageId, Place};
use crate::runs::Writer;

/// A difference, and the page that it is beside.
#[derive(Debug)]
pub struct Difference {
    pub base: Place,
    pub packed: Vec<u8>,
}

#[derive(Debug, Default)]
pub struct Making {
    masked: Vec<bool>,
    differs: Vec<bool>,
    whole: Vec<u8>,
    differences: Vec<Difference>,
    ids: Vec<u8>,
}

impl Making {
    pub fn add(&mut self, page: &[u8], masked: bool, id: &PageId, difference: Option<Difference>) {
        self.masked.push(masked);
        self.differs.push(difference.is_some());
        match difference {
            Some(difference) => self.differences.push(difference),
            None => self.whole.extend_from_slice(page),
        }
        self.ids.extend_from_slice(id);
    }

    pub fn len(&self) -> usize {
        self.masked.len()
    }

    /// Appends what is stored of it.
    pub fn finish(self, level: i32, stored: &mut Vec<u8>) -> Result<Entry> {
        let (pages, differences) = (self.len(), !self.differences.is_empty());
        let packed = if differences { self.with_differences(level) } else { self.all_whole(level) };
        let (packed, start) = (packed?, stored.len());
        stored.extend(&packed);
        stored.extend(&self.ids);
        let digest = *blake3::hash(&stored[start..]).as_bytes();
        Ok(Entry { pages: size(pages), packed: size(packed.len()), digest, differences })
    }

    fn all_whole(&self, level: i32) -> Result<Vec<u8>> {
        let mut plain = bits(&self.masked);
        plain.extend(&self.whole);
        compressed(&plain, level, false)
    }

    /// The lengths of the head and of the whole pages as they are packed, these, and the differences.
    fn with_differences(&self, level: i32) -> Result<Vec<u8>> {
        let (mut head, mut bases) = (bits(&self.masked), Writer::new(u32::MAX));
        head.extend(bits(&self.differs));
        for difference in &self.differences {
            head.extend(size(difference.packed.len()).to_le_bytes());
            bases.add(difference.base.pack, difference.base.page);
        }
        head.extend(bases.finish());
        let (head, whole) =
            (compressed(&head, level, false)?, compressed(&self.whole, level, false)?);
        let mut packed = [size(head.len()).to_le_bytes(), size(whole.len()).to_le_bytes()].concat();
        packed.extend(head);
        packed.extend(whole);
        packed.extend(self.differences.iter().flat_map(|difference| &difference.packed));
        Ok(packed)
    }
}

fn bits(flagged: &[bool]) -> Vec<u8> {
    let mut bytes = vec![0; flags(flagged.len())];
    for (number, _) in flagged.iter().enumerate().filter(|(_, flag)| **flag) {
        bytes[number / 8] |= 1 << (number % 8);
    }
    bytes
}

/// Of a frame, whose size is bounded.
fn size(count: usize) -> u32 {
    u32::try_from(count).expect("a frame is small")
}
