//! A frame stores some pages of a pack together. It has a bit for each page (whether the page is stored without its
//! number), then the pages, all compressed together. The ids of the pages follow, which the next backup reads.
//!
//! A frame with differences begins with the lengths of its next two parts, which are compressed separately: its head,
//! and its whole pages. The head has one bit per page that marks pages without their numbers, one bit per page that
//! marks differences, the length of each difference, and the bases as runs. The differences follow the whole pages.

use std::ops::Range;

use common::{Error, Result};

use crate::cache::Cached;
use crate::difference::{compressed, decompressed};
use crate::pack::{Entry, LARGEST_HEAD, flags};
use crate::page::{self, ID, PageId, Place, RunWriter};

/// How a page is stored.
#[derive(Debug, Clone)]
enum Form {
    /// Whole, at this offset of the whole pages.
    Whole(usize),
    /// As the difference to this base, at this range of the differences.
    Difference(Place, Range<usize>),
}

/// What a frame says about its pages. To read it, the pages need not be decompressed.
#[derive(Debug)]
pub struct Head {
    masked: Vec<u8>,
    forms: Vec<Form>,
    ids: Vec<u8>,
}

impl Head {
    pub fn id(&self, number: usize) -> &PageId {
        self.ids[number * ID..].first_chunk().expect("one id per page")
    }

    /// Returns the base of the page, if the page is stored as a difference.
    pub fn base(&self, number: usize) -> Option<Place> {
        match self.forms[number] {
            Form::Whole(_) => None,
            Form::Difference(base, _) => Some(base),
        }
    }

    pub fn pages(&self) -> usize {
        self.forms.len()
    }
}

/// A page of a decompressed frame.
pub enum Content<'a> {
    Whole(&'a [u8]),
    /// The base, and the compressed difference to it.
    Difference(Place, &'a [u8]),
}

#[derive(Debug)]
pub struct Frame {
    head: Head,
    page_size: usize,
    whole: Vec<u8>,
    differences: Vec<u8>,
}

impl Frame {
    pub fn unpack(stored: &[u8], entry: &Entry, page_size: usize) -> Result<Self> {
        entry.check(stored)?;
        let pages = entry.pages as usize;
        let (packed, ids) = stored.split_at(entry.packed as usize);
        if !entry.differences {
            let whole = unpacked(packed, flags(pages) + pages * page_size)?;
            let masked = whole[..flags(pages)].to_vec();
            let start = |number| Form::Whole(flags(pages) + number * page_size);
            let forms = (0..pages).map(start).collect();
            let head = Head { masked, forms, ids: ids.to_vec() };
            return Ok(Self { head, page_size, whole, differences: Vec::new() });
        }
        let parts = Parts::of(packed)?;
        let head = parts.head(pages, ids, page_size)?;
        let count = head.forms.iter().filter(|form| matches!(form, Form::Whole(_))).count();
        let whole = unpacked(parts.whole, count * page_size)?;
        Ok(Self { head, page_size, whole, differences: parts.differences.to_vec() })
    }

    /// Reads only the head of a frame.
    pub fn head(stored: &[u8], entry: &Entry, page_size: usize) -> Result<Head> {
        entry.check(stored)?;
        let pages = entry.pages as usize;
        let (packed, ids) = stored.split_at(entry.packed as usize);
        if entry.differences {
            return Parts::of(packed)?.head(pages, ids, page_size);
        }
        let forms = vec![Form::Whole(0); pages];
        Ok(Head { masked: Vec::new(), forms, ids: ids.to_vec() })
    }

    pub fn page(&self, number: usize) -> Content<'_> {
        match &self.head.forms[number] {
            Form::Whole(start) => Content::Whole(&self.whole[*start..][..self.page_size]),
            Form::Difference(base, range) => Content::Difference(*base, &self.differences[range.clone()]),
        }
    }

    pub fn is_masked(&self, number: usize) -> bool {
        bit(&self.head.masked, number)
    }

    pub fn pages(&self) -> usize {
        self.head.pages()
    }
}

impl Cached for Frame {
    const CACHE_BYTES: usize = 96 << 20;

    fn bytes(&self) -> usize {
        self.whole.len() + self.differences.len() + self.head.bytes()
    }
}

impl Cached for Head {
    /// Enough for one head of each pack of many small backups: each frame is then read once, even if pages of many
    /// packs alternate.
    const CACHE_BYTES: usize = 16 << 20;

    fn bytes(&self) -> usize {
        self.masked.len() + self.ids.len() + self.pages() * size_of::<Form>()
    }
}

/// The parts of a stored frame with differences, as they are stored.
struct Parts<'a> {
    head: &'a [u8],
    whole: &'a [u8],
    differences: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(packed: &'a [u8]) -> Result<Self> {
        let split = || {
            let (head, rest) = packed.split_first_chunk()?;
            let (whole, rest) = rest.split_first_chunk()?;
            let (head, rest) = rest.split_at_checked(u32::from_le_bytes(*head) as usize)?;
            let (whole, differences) = rest.split_at_checked(u32::from_le_bytes(*whole) as usize)?;
            Some(Self { head, whole, differences })
        };
        split().ok_or_else(wrong)
    }

    fn head(&self, pages: usize, ids: &[u8], page_size: usize) -> Result<Head> {
        let head = decompressed(self.head, LARGEST_HEAD)?;
        let (masked, rest) = head.split_at_checked(flags(pages)).ok_or_else(wrong)?;
        let (differs, rest) = rest.split_at_checked(flags(pages)).ok_or_else(wrong)?;
        let count = (0..pages).filter(|&number| bit(differs, number)).count();
        let (lengths, runs) = rest.split_at_checked(count * 4).ok_or_else(wrong)?;
        let runs = page::read_runs(runs, u32::MAX, 0, count as u64)?;
        let bases = runs.iter().flat_map(|run| run.places());
        let mut differences = bases.zip(ranges(lengths, self.differences.len())?);
        let mut whole = (0..).step_by(page_size);
        let form = |number| {
            if bit(differs, number) {
                differences.next().map(|(base, range)| Form::Difference(base, range))
            } else {
                whole.next().map(Form::Whole)
            }
        };
        let forms = (0..pages).map(form).collect::<Option<_>>().ok_or_else(wrong)?;
        Ok(Head { masked: masked.to_vec(), forms, ids: ids.to_vec() })
    }
}

/// Returns the range of each difference. Fails unless the lengths add up to `total`.
fn ranges(lengths: &[u8], total: usize) -> Result<Vec<Range<usize>>> {
    let mut end = 0_usize;
    let range = |length: &[u8]| {
        let start = end;
        end = start.checked_add(u32::from_le_bytes(length.try_into().ok()?) as usize)?;
        Some(start..end)
    };
    let ranges: Option<Vec<_>> = lengths.chunks_exact(4).map(range).collect();
    ranges.filter(|_| end == total).ok_or_else(wrong)
}

fn bit(bits: &[u8], number: usize) -> bool {
    bits[number / 8] >> (number % 8) & 1 == 1
}

fn unpacked(packed: &[u8], size: usize) -> Result<Vec<u8>> {
    let plain = decompressed(packed, size)?;
    if plain.len() == size { Ok(plain) } else { Err(wrong()) }
}

fn wrong() -> Error {
    Error::damaged("a frame holds another number of bytes than its index says")
}

pub struct Difference {
    pub base: Place,
    pub packed: Vec<u8>,
}

#[derive(Default)]
pub struct FrameBuilder {
    masked: Vec<bool>,
    differs: Vec<bool>,
    whole: Vec<u8>,
    differences: Vec<Difference>,
    ids: Vec<u8>,
}

impl FrameBuilder {
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

    /// Appends the frame to `stored`, and returns its index entry.
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

    fn with_differences(&self, level: i32) -> Result<Vec<u8>> {
        let (mut head, mut bases) = (bits(&self.masked), RunWriter::new(u32::MAX));
        head.extend(bits(&self.differs));
        for difference in &self.differences {
            head.extend(size(difference.packed.len()).to_le_bytes());
            bases.add(difference.base.pack, difference.base.page);
        }
        head.extend(bases.finish());
        let (head, whole) = (compressed(&head, level, false)?, compressed(&self.whole, level, false)?);
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

/// Converts a size within a frame.
fn size(count: usize) -> u32 {
    u32::try_from(count).expect("a frame is small")
}
