//! Frames whose pages are stored again, so that nobody unpacks these frames for little any more; and which pages of packs
//! are used.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use common::Result;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::assembly::Assembly;
use crate::known::Stood;
use crate::page::Place;

/// How much of a frame or pack is used is told in parts of so many.
const PARTS: u64 = 1000;
const NEARLY_EMPTY: u64 = PARTS / 10;

/// used: of its pages, by themselves or as bases. again: the pages that are stored again without the frame.
#[derive(Debug, Default)]
struct Use {
    used: u64,
    again: u64,
}

/// Number of a pack, and of a frame in it.
pub type FrameKey = (u32, usize);

/// As long as all frames hold more than half as much again as is used, and while no more than `again` pages are stored
/// again: the nearly empty ones, which cost a restore most for each page, then those of the packs that are used least,
/// which can be removed then.
pub fn retired(packs: &Assembly, pages: &[Stood], mut again: u64) -> Result<FxHashSet<FrameKey>> {
    let (frames, whole) = used(packs, pages)?;
    let mut order = Vec::with_capacity(frames.len());
    for ((number, frame), of) in &frames {
        let pack = packs.pack(*number)?;
        let there = pack.pages_of(*frame);
        let rank = match part(of.used, there) {
            own if own < NEARLY_EMPTY => own,
            _ => NEARLY_EMPTY + part(whole[number], pack.pages().into()),
        };
        order.push((rank, *number, *frame, there, of));
    }
    order.sort_unstable_by_key(|one| (one.0, one.1, one.2));
    let mut held: u64 = order.iter().map(|frame| frame.3).sum();
    let all: u64 = frames.values().map(|of| of.used).sum();
    let mut retired = FxHashSet::default();
    for (_, number, frame, there, of) in order {
        if of.again > again || 2 * held <= 3 * all {
            break;
        }
        again -= of.again;
        held -= there.min(held);
        held += of.used;
        retired.insert((number, frame));
    }
    Ok(retired)
}

/// Of each frame, and how many pages of each pack are used.
fn used(
    packs: &Assembly,
    pages: &[Stood],
) -> Result<(FxHashMap<FrameKey, Use>, FxHashMap<u32, u64>)> {
    let (uses, mut frames) = (Uses::of(packs), FxHashMap::<FrameKey, Use>::default());
    for stood in pages {
        for place in stood.places() {
            let of = frames.entry(packs.frame_of(place)?).or_default();
            of.again += 1;
            of.used += u64::from(uses.add(place));
        }
    }
    Ok((frames, uses.counts().into_iter().collect()))
}

fn part(used: u64, there: u64) -> u64 {
    used * PARTS / there.max(1)
}

#[derive(Debug, Default)]
pub struct Uses(FxHashMap<u32, Vec<AtomicU64>>);

impl Uses {
    /// None yet.
    pub fn of(packs: &Assembly) -> Self {
        let words = |pages: u32| (0..pages.div_ceil(u64::BITS)).map(|_| AtomicU64::new(0));
        Self(packs.packs().map(|(number, pack)| (number, words(pack.pages()).collect())).collect())
    }

    /// Whether it was not used before. A page of another pack is not counted.
    pub fn add(&self, place: Place) -> bool {
        let word = self.0.get(&place.pack).and_then(|words| words.get(place.page as usize / 64));
        let bit = 1 << (place.page % 64);
        word.is_some_and(|word| word.fetch_or(bit, Relaxed) & bit == 0)
    }

    /// How many pages of each pack.
    pub fn counts(&self) -> Vec<(u32, u64)> {
        let count = |words: &Vec<AtomicU64>| {
            words.iter().map(|word| u64::from(word.load(Relaxed).count_ones())).sum()
        };
        self.0.iter().map(|(&number, words)| (number, count(words))).collect()
    }
}
