//! Pages, their ids, and runs of pages.
//!
//! Two pages are the same if they differ only in their page number and, in format 3, their transaction: a compacting
//! copy renumbers pages, so that one more page at the beginning changes all numbers.
//!
//! A run is stored as the number of its pack, its length, and its start in the pack, all in LEB128. The start is
//! relative to the end of the previous run of the same pack in the segment, in zigzag coding. The first start in a pack
//! is relative to page 0, but in the backup's own pack to the number of pages that earlier segments took from it.

use common::{Error, Result};
use rustc_hash::FxHashMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    pub pack: u32,
    pub start: u32,
    pub count: u32,
}

impl Run {
    pub fn places(self) -> impl Iterator<Item = Place> {
        (self.start..self.start + self.count).map(move |page| Place { pack: self.pack, page })
    }
}

/// The end of the last run of each pack.
type Ends = FxHashMap<u32, u32>;

/// Encodes the pages that are added to it as runs.
pub struct RunWriter {
    bytes: Vec<u8>,
    ends: Ends,
    open: Option<Run>,
}

impl RunWriter {
    /// The segment's pages in pack `own` are numbered from 0, because the number of earlier pages is not known yet.
    pub fn new(own: u32) -> Self {
        Self { bytes: Vec::new(), ends: Ends::from_iter([(own, 0)]), open: None }
    }

    pub fn add(&mut self, pack: u32, index: u32) {
        match &mut self.open {
            Some(run) if run.pack == pack && run.start + run.count == index => run.count += 1,
            _ => {
                self.close();
                self.open = Some(Run { pack, start: index, count: 1 });
            }
        }
    }

    fn close(&mut self) {
        let Some(run) = self.open.take() else { return };
        let jump = i64::from(run.start) - i64::from(self.ends.get(&run.pack).copied().unwrap_or_default());
        put(&mut self.bytes, run.pack.into());
        put(&mut self.bytes, run.count.into());
        put(&mut self.bytes, zigzag(jump));
        self.ends.insert(run.pack, run.start + run.count);
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.close();
        self.bytes
    }
}

/// Decodes the runs of a segment with `pages` pages. Its pages in pack `own` begin at page `first` of that pack.
pub fn read_runs(mut bytes: &[u8], own: u32, first: u32, pages: u64) -> Result<Vec<Run>> {
    let (mut runs, mut ends, mut remaining) = (Vec::new(), Ends::from_iter([(own, first)]), pages);
    while !bytes.is_empty() {
        let pack = u32::try_from(take(&mut bytes)?).map_err(|_| wrong())?;
        let count = u32::try_from(take(&mut bytes)?).map_err(|_| wrong())?;
        let jump = unzigzag(take(&mut bytes)?);
        let start = i64::from(ends.get(&pack).copied().unwrap_or_default()).checked_add(jump).ok_or_else(wrong)?;
        let start = u32::try_from(start).map_err(|_| wrong())?;
        let end = start.checked_add(count).ok_or_else(wrong)?;
        remaining = remaining.checked_sub(count.into()).ok_or_else(wrong)?;
        if count == 0 {
            return Err(wrong());
        }
        ends.insert(pack, end);
        runs.push(Run { pack, start, count });
    }
    if remaining == 0 { Ok(runs) } else { Err(wrong()) }
}

pub(crate) fn wrong() -> Error {
    Error::damaged("the list of its pages is invalid")
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

fn take(bytes: &mut &[u8]) -> Result<u64> {
    let mut number = 0;
    for shift in (0..63).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or_else(wrong)?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(wrong())
}

fn zigzag(number: i64) -> u64 {
    u64::from_ne_bytes(((number << 1) ^ (number >> 63)).to_ne_bytes())
}

fn unzigzag(number: u64) -> i64 {
    let signed = |bits: u64| i64::from_ne_bytes(bits.to_ne_bytes());
    signed(number >> 1) ^ -signed(number & 1)
}

/// Length of an id in bytes. An id is the beginning of a BLAKE3 hash, long enough that nobody can forge two pages with
/// the same id.
pub const ID: usize = 20;

pub type PageId = [u8; ID];

/// A page in a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub pack: u32,
    pub page: u32,
}

const NUMBER: usize = 8;

/// Number of the first page after both meta pages.
pub const FIRST: u64 = 2;

/// Properties of the pages of a snapshot.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shape {
    /// Bytes of a page.
    pub page_size: usize,
    /// In format 3, the transaction number on every page.
    pub transaction: Option<u64>,
}

impl Shape {
    /// Returns the bytes with which page `number` begins, and how many of them are in use in the file format.
    fn beginning(self, number: u64) -> ([u8; 2 * NUMBER], usize) {
        let mut bytes = [0; 2 * NUMBER];
        bytes[..NUMBER].copy_from_slice(&number.to_ne_bytes());
        bytes[NUMBER..].copy_from_slice(&self.transaction.unwrap_or_default().to_ne_bytes());
        (bytes, if self.transaction.is_some() { 2 * NUMBER } else { NUMBER })
    }

    /// Replaces the page number by zeros if the page begins with it, and returns whether it does. Of the pages of a
    /// large value, only the first has a number.
    pub(crate) fn mask(self, page: &mut [u8], number: u64) -> bool {
        let (beginning, length) = self.beginning(number);
        let has_number = page[..length] == beginning[..length];
        if has_number {
            page[..length].fill(0);
        }
        has_number
    }

    /// Undoes [`Self::mask`].
    pub(crate) fn unmask(self, page: &mut [u8], number: u64) {
        let (beginning, length) = self.beginning(number);
        page[..length].copy_from_slice(&beginning[..length]);
    }
}

/// Computes page ids. The buffer is for a copy of the page, because hashing one slice is faster than several.
#[derive(Debug, Default)]
pub(crate) struct PageHasher(Vec<u8>);

impl PageHasher {
    /// Returns the id of a page, which does not depend on `number`, and whether the page begins with that number.
    pub fn masked_id(&mut self, page: &[u8], number: u64, shape: Shape) -> (PageId, bool) {
        self.0.clear();
        self.0.extend_from_slice(page);
        let masked = shape.mask(&mut self.0, number);
        self.0.push(masked.into());
        let hash = blake3::hash(&self.0);
        (*hash.as_bytes().first_chunk().expect("an id is shorter than a hash"), masked)
    }
}
