//! The pages of an earlier backup, by id and in order; and the retired frames, whose few used pages are stored again so
//! that a restore need not unpack these frames.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use common::{Error, Result};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::assembly::Assembly;
use crate::cache::Cache;
use crate::frame::Head;
use crate::page::{self, PageId, Place};

/// Consecutive pages of a backup. `first`: number of earlier pages from the backup's own pack.
#[derive(Debug, Clone)]
pub struct Segment {
    pub runs: Vec<u8>,
    pub first: u32,
    pub pages: u64,
}

/// A page of a backup. `base`: the whole page that it is a difference to, if it is one.
#[derive(Debug, Clone, Copy)]
pub struct StoredPage {
    pub place: Place,
    pub base: Option<Place>,
}

impl StoredPage {
    /// Returns the stored pages that it needs.
    pub fn places(self) -> impl Iterator<Item = Place> {
        std::iter::once(self.place).chain(self.base)
    }

    /// Returns the base for a difference to a later version of this page.
    pub fn whole(self) -> Place {
        self.base.unwrap_or(self.place)
    }
}

/// Uses some 60 bytes of memory per page.
#[derive(Debug, Default)]
pub struct Known {
    packs: Arc<Assembly>,
    pages: Vec<StoredPage>,
    /// Page numbers in the backup, by id.
    ids: FxHashMap<PageId, u32>,
    retired: FxHashSet<FrameKey>,
    pub(crate) uses: Uses,
}

impl Known {
    /// Reads the pages of the backup with the pack `own`. Up to `again` pages in sparsely used frames are treated as
    /// unknown, so that they are stored again and these frames are no longer needed.
    pub fn of(packs: Arc<Assembly>, segments: &[Segment], own: u32, again: u64) -> Result<Self> {
        let mut known = Self { uses: Uses::of(&packs), packs, ..Self::default() };
        let packs = Arc::clone(&known.packs);
        let read = Cache::default();
        let (mut heads, mut bases) = (Heads::of(&packs, &read), Heads::of(&packs, &read));
        for one in segments {
            for run in page::read_runs(&one.runs, own, one.first, one.pages)? {
                for place in run.places() {
                    let (head, within) = heads.at(place)?;
                    let base = head.base(within);
                    if let Some(base) = base {
                        bases.require_whole(base)?;
                    }
                    known.add(StoredPage { place, base }, head.id(within))?;
                }
            }
        }
        known.retired = retired(&packs, &known.pages, again)?;
        let kept = known.pages.iter().map(|stored| known.is_kept(*stored));
        let kept: Vec<_> = kept.collect::<Result<_>>()?;
        known.ids.retain(|_, number| kept[*number as usize]);
        Ok(known)
    }

    fn add(&mut self, stored: StoredPage, id: &PageId) -> Result<()> {
        let number = u32::try_from(self.pages.len());
        let number = number.map_err(|_| Error::damaged("a backup of too many pages"))?;
        self.pages.push(stored);
        self.ids.insert(*id, number);
        Ok(())
    }

    /// Returns whether none of the frames that it needs is retired.
    fn is_kept(&self, stored: StoredPage) -> Result<bool> {
        for place in stored.places() {
            if self.retired.contains(&self.packs.frame_of(place)?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(crate) fn packs(&self) -> &Assembly {
        &self.packs
    }

    /// Returns the number of a page with this id: `near` if that has the same content, else any.
    pub(crate) fn find(&self, id: &PageId, near: Option<u32>) -> Option<u32> {
        let found = *self.ids.get(id)?;
        let place = |number: u32| self.pages.get(number as usize).map(|stored| stored.place);
        near.filter(|near| place(*near) == place(found)).or(Some(found))
    }

    /// Returns where the page is stored, and marks it as used.
    pub(crate) fn take(&self, number: u32) -> Place {
        let stored = self.pages[number as usize];
        stored.places().for_each(|place| _ = self.uses.add(place));
        stored.place
    }

    /// Returns the base for a difference to a later version of the page.
    pub(crate) fn base(&self, number: u32) -> Option<Place> {
        let base = self.pages.get(number as usize)?.whole();
        let frame = self.packs.frame_of(base).ok()?;
        (!self.retired.contains(&frame)).then_some(base)
    }

    /// Returns the number of used pages in each pack.
    pub fn used(&self) -> Vec<(u32, u64)> {
        self.uses.counts()
    }
}

/// The most recent frame head of each pack.
struct Heads<'a> {
    packs: &'a Assembly,
    read: &'a Cache<Head>,
    last: FxHashMap<u32, (usize, Arc<Head>)>,
}

impl<'a> Heads<'a> {
    fn of(packs: &'a Assembly, read: &'a Cache<Head>) -> Self {
        Self { packs, read, last: FxHashMap::default() }
    }

    /// Returns the head of the page's frame, and the page's index in it.
    fn at(&mut self, place: Place) -> Result<(&Head, usize)> {
        let pack = self.packs.pack(place.pack)?;
        let (frame, within) = pack.find(place.page)?;
        if self.last.get(&place.pack).is_none_or(|last| last.0 != frame) {
            let head = self.read.get((place.pack, frame), || pack.head(frame))?;
            self.last.insert(place.pack, (frame, head));
        }
        Ok((&self.last[&place.pack].1, within))
    }

    /// Checks that the base is a whole page; reading its frame's head also verifies the frame's checksum.
    fn require_whole(&mut self, base: Place) -> Result<()> {
        let (head, within) = self.at(base)?;
        if head.base(within).is_none() { Ok(()) } else { Err(not_whole()) }
    }
}

pub(crate) fn not_whole() -> Error {
    Error::damaged("the base of a difference is itself a difference")
}

/// Shares of used pages are in parts per thousand.
const PARTS: u64 = 1000;
const NEARLY_EMPTY: u64 = PARTS / 10;

/// `used`: pages of the frame in use, directly or as bases. `again`: pages to store again if the frame is retired.
#[derive(Debug, Default)]
struct Use {
    used: u64,
    again: u64,
}

/// Pack number and index of a frame in the pack.
pub type FrameKey = (u32, usize);

/// Chooses frames to retire while all frames hold more than 1.5 times the used pages and at most `again` pages must be
/// stored again: first nearly empty frames, the most expensive per page in a restore; then those of the least used
/// packs, which can then be removed.
pub fn retired(packs: &Assembly, pages: &[StoredPage], mut again: u64) -> Result<FxHashSet<FrameKey>> {
    let (frames, whole) = used(packs, pages)?;
    let mut order = Vec::with_capacity(frames.len());
    for ((number, frame), of) in &frames {
        let pack = packs.pack(*number)?;
        let pages_in_frame = pack.pages_of(*frame);
        let rank = match part(of.used, pages_in_frame) {
            own if own < NEARLY_EMPTY => own,
            _ => NEARLY_EMPTY + part(whole[number], pack.pages().into()),
        };
        order.push((rank, *number, *frame, pages_in_frame, of));
    }
    order.sort_unstable_by_key(|one| (one.0, one.1, one.2));
    let mut remaining: u64 = order.iter().map(|frame| frame.3).sum();
    let all: u64 = frames.values().map(|of| of.used).sum();
    let mut retired = FxHashSet::default();
    for (_, number, frame, pages_in_frame, of) in order {
        if of.again > again || 2 * remaining <= 3 * all {
            break;
        }
        again -= of.again;
        remaining -= pages_in_frame.min(remaining);
        remaining += of.used;
        retired.insert((number, frame));
    }
    Ok(retired)
}

/// Returns the use of each frame, and the number of used pages of each pack.
fn used(packs: &Assembly, pages: &[StoredPage]) -> Result<(FxHashMap<FrameKey, Use>, FxHashMap<u32, u64>)> {
    let (uses, mut frames) = (Uses::of(packs), FxHashMap::<FrameKey, Use>::default());
    for stored in pages {
        for place in stored.places() {
            let of = frames.entry(packs.frame_of(place)?).or_default();
            of.again += 1;
            of.used += u64::from(uses.add(place));
        }
    }
    Ok((frames, uses.counts().into_iter().collect()))
}

fn part(used: u64, pages_in_frame: u64) -> u64 {
    used * PARTS / pages_in_frame.max(1)
}

#[derive(Debug, Default)]
pub struct Uses(FxHashMap<u32, Vec<AtomicU64>>);

impl Uses {
    /// Returns a set in which no page is used.
    pub fn of(packs: &Assembly) -> Self {
        let words = |pages: u32| (0..pages.div_ceil(u64::BITS)).map(|_| AtomicU64::new(0));
        Self(packs.packs().map(|(number, pack)| (number, words(pack.pages()).collect())).collect())
    }

    /// Marks a page and returns whether it was unused before; false if its pack is unknown.
    pub fn add(&self, place: Place) -> bool {
        let word = self.0.get(&place.pack).and_then(|words| words.get(place.page as usize / 64));
        let bit = 1 << (place.page % 64);
        word.is_some_and(|word| word.fetch_or(bit, Relaxed) & bit == 0)
    }

    /// Returns the number of used pages of each pack.
    pub fn counts(&self) -> Vec<(u32, u64)> {
        let count = |words: &Vec<AtomicU64>| words.iter().map(|word| u64::from(word.load(Relaxed).count_ones())).sum();
        self.0.iter().map(|(&number, words)| (number, count(words))).collect()
    }
}
