//! Runs of pages of packs, as bytes: the number of the pack, how many pages, and where they begin in it.
//!
//! All are LEB128; a beginning is the difference to the end of the last run of the same pack, zigzag. A segment begins with
//! none known, except the pack of its own backup, whose pages follow one another.

use common::{Error, Result};
use rustc_hash::FxHashMap;

use crate::page::Place;

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

/// Where the last run of each pack ended.
#[derive(Debug, Default)]
struct Ends(FxHashMap<u32, u32>);

impl Ends {
    fn of(own: u32, first: u32) -> Self {
        Self([(own, first)].into_iter().collect())
    }

    fn get(&self, pack: u32) -> u32 {
        self.0.get(&pack).copied().unwrap_or_default()
    }
}

/// Makes runs of the pages that are added.
#[derive(Debug)]
pub struct Writer {
    bytes: Vec<u8>,
    ends: Ends,
    open: Option<Run>,
}

impl Writer {
    /// The pages of pack `own` begin with 0 here: how many there are before is not known yet.
    pub fn new(own: u32) -> Self {
        Self { bytes: Vec::new(), ends: Ends::of(own, 0), open: None }
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
        let jump = i64::from(run.start) - i64::from(self.ends.get(run.pack));
        put(&mut self.bytes, run.pack.into());
        put(&mut self.bytes, run.count.into());
        put(&mut self.bytes, zigzag(jump));
        self.ends.0.insert(run.pack, run.start + run.count);
    }

    pub fn finish(mut self) -> Vec<u8> {
        self.close();
        self.bytes
    }
}

/// The runs of a segment whose pages of pack `own` begin with `first`, `pages` in all.
pub fn read(mut bytes: &[u8], own: u32, first: u32, pages: u64) -> Result<Vec<Run>> {
    let (mut runs, mut ends, mut left) = (Vec::new(), Ends::of(own, first), pages);
    while !bytes.is_empty() {
        let pack = u32::try_from(take(&mut bytes)?).map_err(|_| wrong())?;
        let count = u32::try_from(take(&mut bytes)?).map_err(|_| wrong())?;
        let jump = unzigzag(take(&mut bytes)?);
        let start = i64::from(ends.get(pack)).checked_add(jump).ok_or_else(wrong)?;
        let start = u32::try_from(start).map_err(|_| wrong())?;
        let end = start.checked_add(count).ok_or_else(wrong)?;
        left = left.checked_sub(count.into()).ok_or_else(wrong)?;
        if count == 0 {
            return Err(wrong());
        }
        ends.0.insert(pack, end);
        runs.push(Run { pack, start, count });
    }
    if left == 0 { Ok(runs) } else { Err(wrong()) }
}

fn wrong() -> Error {
    Error::damaged("the list of its pages makes no sense")
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
