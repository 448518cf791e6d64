//! The pages of the previous backup by id and in order, and the retired frames. A retired frame has few used pages;
//! these are stored again, so that a restore need not decompress the frame.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use common::{Error, Result};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::assembly::Assembly;
use crate::cache::Cache;
use crate::frame::Head;
use crate::page::{self, PageId, Place};

/// Consecutive pages of a backup.
#[derive(Debug, Clone)]
pub struct Segment {
    pub runs: Vec<u8>,
    /// Number of pages that earlier segments have in the backup's own pack.
    pub first: u32,
    /// Number of pages.
    pub pages: u64,
}

/// A page of a backup.
#[derive(Debug, Clone, Copy)]
pub struct StoredPage {
    pub place: Place,
    /// The base, if the page is stored as a difference.
    pub base: Option<Place>,
}

impl StoredPage {
    /// Returns the places of the page and of its base.
    pub fn places(self) -> impl Iterator<Item = Place> {
        std::iter::once(self.place).chain(self.base)
    }
}

/// The pages of the previous backup, which take some 60 bytes of memory each.
#[derive(Debug, Default)]
pub struct Known {
    pub(crate) packs: Arc<Assembly>,
    pages: Vec<StoredPage>,
    /// The index in `pages` of the page with this id.
    ids: FxHashMap<PageId, u32>,
    retired: FxHashSet<FrameKey>,
    pub(crate) uses: Uses,
}

impl Known {
    /// Reads the pages of the backup with the pack `own`. Up to `again` pages in sparsely used frames count as unknown,
    /// so that they are stored again and these frames are no longer needed.
    pub fn of(packs: Arc<Assembly>, segments: &[Segment], own: u32, again: u64) -> Result<Self> {
        let mut known = Self { uses: Uses::of(&packs), packs, ..Self::default() };
        let packs = Arc::clone(&known.packs);
        let cache = Cache::default();
        let (mut heads, mut bases) = (Heads::of(&packs, &cache), Heads::of(&packs, &cache));
        for segment in segments {
            for run in page::read_runs(&segment.runs, own, segment.first, segment.pages)? {
                for place in run.places() {
                    let (head, within) = heads.at(place)?;
                    let base = head.base(within);
                    if let Some(base) = base {
                        bases.require_whole(base)?;
                    }
                    let number = u32::try_from(known.pages.len());
                    let number = number.map_err(|_| Error::damaged("a backup of too many pages"))?;
                    known.pages.push(StoredPage { place, base });
                    known.ids.insert(*head.id(within), number);
                }
            }
        }
        known.retired = retired(&packs, &known.pages, again)?;
        let kept = known.pages.iter().map(|stored| known.is_kept(*stored));
        let kept: Vec<_> = kept.collect::<Result<_>>()?;
        known.ids.retain(|_, number| kept[*number as usize]);
        Ok(known)
    }

    /// Returns whether neither the frame of the page nor that of its base is retired.
    fn is_kept(&self, stored: StoredPage) -> Result<bool> {
        for place in stored.places() {
            if self.retired.contains(&self.packs.frame_of(place)?) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the number of a page with this id: that of page `expected` if it is at the same place, else any.
    pub(crate) fn find(&self, id: &PageId, expected: Option<u32>) -> Option<u32> {
        let number = *self.ids.get(id)?;
        let place = |number: u32| self.pages.get(number as usize).map(|stored| stored.place);
        expected.filter(|expected| place(*expected) == place(number)).or(Some(number))
    }

    /// Returns the place of the page, and marks the page and its base as used.
    pub(crate) fn take(&self, number: u32) -> Place {
        let stored = self.pages[number as usize];
        stored.places().for_each(|place| _ = self.uses.add(place));
        stored.place
    }

    /// Returns the base to which a later version of the page can be a difference; `None` if its frame is retired.
    pub(crate) fn base(&self, number: u32) -> Option<Place> {
        let stored = self.pages.get(number as usize)?;
        let base = stored.base.unwrap_or(stored.place);
        let frame = self.packs.frame_of(base).ok()?;
        (!self.retired.contains(&frame)).then_some(base)
    }

    /// Returns the number of used pages in each pack.
    pub fn used(&self) -> Vec<(u32, u64)> {
        self.uses.counts()
    }
}

/// For each pack, the frame head that was used last.
struct Heads<'a> {
    packs: &'a Assembly,
    cache: &'a Cache<Head>,
    last: FxHashMap<u32, (usize, Arc<Head>)>,
}

impl<'a> Heads<'a> {
    fn of(packs: &'a Assembly, cache: &'a Cache<Head>) -> Self {
        Self { packs, cache, last: FxHashMap::default() }
    }

    /// Returns the head of the page's frame, and the page's index in the frame.
    fn at(&mut self, place: Place) -> Result<(&Head, usize)> {
        let pack = self.packs.pack(place.pack)?;
        let (frame, within) = pack.find(place.page)?;
        if self.last.get(&place.pack).is_none_or(|last| last.0 != frame) {
            let head = self.cache.get((place.pack, frame), || pack.head(frame))?;
            self.last.insert(place.pack, (frame, head));
        }
        Ok((&self.last[&place.pack].1, within))
    }

    /// Checks that the base is a whole page. Reading the head of its frame also verifies the frame's checksum.
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
/// A frame with a smaller share of used pages counts as nearly empty.
const NEARLY_EMPTY: u64 = PARTS / 10;

/// The use of a frame by the previous backup.
#[derive(Debug, Default)]
struct Use {
    /// Number of pages in use, also as bases.
    used: u64,
    /// Number of pages that must be stored again if the frame is retired.
    again: u64,
}

/// The number of a pack, and the index of a frame in the pack.
pub type FrameKey = (u32, usize);

/// Returns the frames to retire. They are so many that the other frames have at most 1.5 times the used pages, but so
/// few that at most `again` pages must be stored again. Nearly empty frames come first, because they cost a restore
/// most per page; then the frames of the least used packs, so that these packs can be removed.
pub fn retired(packs: &Assembly, pages: &[StoredPage], mut again: u64) -> Result<FxHashSet<FrameKey>> {
    let (frames, used_in_pack) = used(packs, pages)?;
    let mut order = Vec::with_capacity(frames.len());
    for ((number, frame), frame_use) in &frames {
        let pack = packs.pack(*number)?;
        let pages_in_frame = pack.pages_of(*frame);
        let rank = match share(frame_use.used, pages_in_frame) {
            share if share < NEARLY_EMPTY => share,
            _ => NEARLY_EMPTY + share(used_in_pack[number], pack.pages().into()),
        };
        order.push((rank, *number, *frame, pages_in_frame, frame_use));
    }
    order.sort_unstable_by_key(|frame| (frame.0, frame.1, frame.2));
    let mut remaining: u64 = order.iter().map(|frame| frame.3).sum();
    let all_used: u64 = frames.values().map(|frame_use| frame_use.used).sum();
    let mut retired = FxHashSet::default();
    for (_, number, frame, pages_in_frame, frame_use) in order {
        if frame_use.again > again || 2 * remaining <= 3 * all_used {
            break;
        }
        again -= frame_use.again;
        remaining -= pages_in_frame.min(remaining);
        remaining += frame_use.used;
        retired.insert((number, frame));
    }
    Ok(retired)
}

/// Returns the use of each frame, and the number of used pages of each pack.
fn used(packs: &Assembly, pages: &[StoredPage]) -> Result<(FxHashMap<FrameKey, Use>, FxHashMap<u32, u64>)> {
    let (uses, mut frames) = (Uses::of(packs), FxHashMap::<FrameKey, Use>::default());
    for stored in pages {
        for place in stored.places() {
            let frame_use = frames.entry(packs.frame_of(place)?).or_default();
            frame_use.again += 1;
            frame_use.used += u64::from(uses.add(place));
        }
    }
    Ok((frames, uses.counts().into_iter().collect()))
}

fn share(used: u64, pages: u64) -> u64 {
    used * PARTS / pages.max(1)
}

/// A bit for each page of each pack: whether it is used.
#[derive(Debug, Default)]
pub struct Uses(FxHashMap<u32, Vec<AtomicU64>>);

impl Uses {
    /// Returns the bits for all pages of `packs`. No page is marked as used yet.
    pub fn of(packs: &Assembly) -> Self {
        let words = |pages: u32| (0..pages.div_ceil(u64::BITS)).map(|_| AtomicU64::new(0));
        Self(packs.packs().map(|(number, pack)| (number, words(pack.pages()).collect())).collect())
    }

    /// Marks a page as used, and returns whether it was unused. Returns false if its pack is unknown.
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
