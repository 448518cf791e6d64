//! Packs, and the pages of a backup put together from them again.

use std::sync::Arc;

use common::{Error, Result};
use rustc_hash::FxHashMap;

use crate::cache::Cache;
use crate::difference::Unpacker;
use crate::frame::{Content, Frame};
use crate::known::{Segment, not_whole};
use crate::pack::Pack;
use crate::page::{Place, Shape};
use crate::retired::FrameKey;
use crate::runs;

/// All packs that a backup needs, by number.
#[derive(Debug, Default)]
pub struct Assembly {
    packs: FxHashMap<u32, Pack>,
    shape: Shape,
    cache: Cache<Frame>,
}

/// Where a page goes: `at` counts from the first of what is filled, `number` is that of the database.
#[derive(Debug, Clone, Copy)]
struct Slot {
    at: usize,
    number: u64,
}

/// A page that is a difference, and what it needs.
struct Differing {
    slot: Slot,
    packed: Vec<u8>,
    base: Vec<u8>,
    masked: bool,
}

impl Assembly {
    pub fn new(packs: impl IntoIterator<Item = (u32, Pack)>, shape: Shape) -> Self {
        Self { packs: packs.into_iter().collect(), shape, cache: Cache::default() }
    }

    pub fn pack(&self, number: u32) -> Result<&Pack> {
        let what = || Error::damaged("the list of its pages names a pack that it does not have");
        self.packs.get(&number).ok_or_else(what)
    }

    pub(crate) fn packs(&self) -> impl Iterator<Item = (u32, &Pack)> {
        self.packs.iter().map(|(number, pack)| (*number, pack))
    }

    pub(crate) fn frame_of(&self, place: Place) -> Result<FrameKey> {
        Ok((place.pack, self.pack(place.pack)?.find(place.page)?.0))
    }

    /// What the pages of a segment come to.
    pub fn bytes(&self, segment: &Segment) -> Result<usize> {
        let pages = usize::try_from(segment.pages).ok();
        let bytes = pages.and_then(|pages| pages.checked_mul(self.shape.page_size));
        bytes.ok_or_else(wrong)
    }

    /// Where the page of that number begins.
    pub(crate) fn offset(&self, number: u64) -> Result<u64> {
        number.checked_mul(self.shape.page_size as u64).ok_or_else(wrong)
    }

    /// Fills `data`, of so many bytes, with the pages of a segment, the first of which has the number `first`.
    pub fn fill(&self, segment: &Segment, own: u32, first: u64, data: &mut [u8]) -> Result<()> {
        let (mut at, mut differing) = (0, Vec::new());
        for run in runs::read(&segment.runs, own, segment.first, segment.pages)? {
            let (mut page, end) = (run.start, run.start + run.count);
            while page < end {
                let (frame, within) = self.frame(Place { pack: run.pack, page })?;
                for number in within..frame.pages().min(within + (end - page) as usize) {
                    let slot = Slot { at, number: first + at as u64 };
                    differing.extend(self.fill_whole(&frame, number, slot, data)?);
                    (at, page) = (at + 1, page + 1);
                }
            }
        }
        self.fill_differing(&differing, data)
    }

    /// Returns what is needed for a page that is a difference.
    fn fill_whole(
        &self,
        frame: &Frame,
        number: usize,
        slot: Slot,
        data: &mut [u8],
    ) -> Result<Option<Differing>> {
        let masked = frame.is_masked(number);
        match frame.page(number) {
            Content::Whole(bytes) => {
                self.page_of(slot, data)?.copy_from_slice(bytes);
                self.unmask(masked, slot, data)?;
                Ok(None)
            }
            Content::Difference(base, packed) => {
                let (packed, base) = (packed.to_vec(), self.whole(base)?);
                Ok(Some(Differing { slot, packed, base, masked }))
            }
        }
    }

    fn fill_differing(&self, differing: &[Differing], data: &mut [u8]) -> Result<()> {
        let mut unpacker = Unpacker::new();
        for one in differing {
            let to = self.page_of(one.slot, data)?;
            unpacker.unpack(&one.packed, &one.base, to)?;
            self.unmask(one.masked, one.slot, data)?;
        }
        Ok(())
    }

    fn page_of<'d>(&self, slot: Slot, data: &'d mut [u8]) -> Result<&'d mut [u8]> {
        let size = self.shape.page_size;
        data.get_mut(slot.at * size..(slot.at + 1) * size).ok_or_else(wrong)
    }

    /// Gives a page that was stored without its number the one that it has here.
    fn unmask(&self, masked: bool, slot: Slot, data: &mut [u8]) -> Result<()> {
        if masked {
            self.shape.number(self.page_of(slot, data)?, slot.number);
        }
        Ok(())
    }

    /// A page that can be the base of others.
    pub(crate) fn whole(&self, place: Place) -> Result<Vec<u8>> {
        let (frame, within) = self.frame(place)?;
        match frame.page(within) {
            Content::Whole(bytes) => Ok(bytes.to_vec()),
            Content::Difference(..) => Err(not_whole()),
        }
    }

    /// The frame with that page, and its number there.
    fn frame(&self, place: Place) -> Result<(Arc<Frame>, usize)> {
        let pack = self.pack(place.pack)?;
        let (number, within) = pack.find(place.page)?;
        let frame = self.cache.get((place.pack, number), || pack.frame(number))?;
        Ok((frame, within))
    }
}

fn wrong() -> Error {
    Error::damaged("the list of its pages makes no sense")
}
