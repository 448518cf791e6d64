//! The pages of an earlier backup by their ids.

use common::{Error, Result};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::assembly::Assembly;
use crate::page::{ID, PageId};
use crate::runs::{self, Run};

/// Consecutive pages of a backup. first: of the pages of the backup's own pack, how many came before.
#[derive(Debug, Clone)]
pub struct Segment {
    pub runs: Vec<u8>,
    pub first: u32,
    pub pages: u64,
}

/// How much of a frame or pack is used is told in parts of so many.
const PARTS: u64 = 1000;
const NEARLY_EMPTY: u64 = PARTS / 10;

/// By id: pack and number in it. Some 40 bytes of memory for each page.
#[derive(Debug, Default)]
pub struct Known(FxHashMap<PageId, (u32, u32)>);

impl Known {
    /// Of a backup with that pack of its own. again: so many of its pages, at most, count as not known, those that keep
    /// much for little. They will be stored again, and nobody unpacks these frames any more.
    pub fn of(packs: &Assembly, segments: &[Segment], own: u32, again: u64) -> Result<Self> {
        let read = |one: &Segment| runs::read(&one.runs, own, one.first, one.pages);
        let runs: Vec<_> = segments.iter().map(read).collect::<Result<_>>()?;
        let retired = retired(packs, runs.iter().flatten(), again)?;
        let (mut known, mut last) =
            (Self::default(), FxHashMap::<u32, (usize, Vec<u8>)>::default());
        for run in runs.iter().flatten() {
            let pack = packs.pack(run.pack)?;
            for page in run.start..run.start + run.count {
                let (frame, place) = pack.find(page)?;
                if retired.contains(&(run.pack, frame)) {
                    continue;
                }
                let there = last.entry(run.pack).or_insert((usize::MAX, Vec::new()));
                if there.0 != frame {
                    *there = (frame, pack.ids(frame)?);
                }
                known.0.insert(id_at(&there.1, place)?, (run.pack, page));
            }
        }
        Ok(known)
    }

    pub(crate) fn get(&self, id: &PageId) -> Option<(u32, u32)> {
        self.0.get(id).copied()
    }
}

/// Frames whose pages are stored again, as long as all frames hold more than half as much again as is used, and while no more
/// than `again` pages are used in them: the nearly empty ones, which cost a restore most for each page, then those of the
/// packs that are used least, which can be removed then.
fn retired<'a>(
    packs: &Assembly,
    runs: impl Iterator<Item = &'a Run>,
    mut again: u64,
) -> Result<FxHashSet<(u32, usize)>> {
    let mut frames = FxHashMap::<(u32, usize), u64>::default();
    let mut whole = FxHashMap::<u32, u64>::default();
    for run in runs {
        let pack = packs.pack(run.pack)?;
        *whole.entry(run.pack).or_default() += u64::from(run.count);
        for page in run.start..run.start + run.count {
            *frames.entry((run.pack, pack.find(page)?.0)).or_default() += 1;
        }
    }
    let mut order = Vec::with_capacity(frames.len());
    for (&(number, frame), &used) in &frames {
        let pack = packs.pack(number)?;
        let there = pack.pages_of(frame);
        let rank = match part(used, there) {
            own if own < NEARLY_EMPTY => own,
            _ => NEARLY_EMPTY + part(whole[&number], pack.pages().into()),
        };
        order.push((rank, number, frame, there, used));
    }
    order.sort_unstable();
    let mut held: u64 = order.iter().map(|frame| frame.3).sum();
    let all: u64 = frames.values().sum();
    let mut retired = FxHashSet::default();
    for (_, number, frame, there, used) in order {
        if used > again || 2 * held <= 3 * all {
            break;
        }
        again -= used;
        held -= there.min(held);
        held += used;
        retired.insert((number, frame));
    }
    Ok(retired)
}

fn part(used: u64, there: u64) -> u64 {
    used * PARTS / there.max(1)
}

fn id_at(ids: &[u8], place: usize) -> Result<PageId> {
    let found = ids.get(place * ID..(place + 1) * ID).and_then(|id| id.try_into().ok());
    found.ok_or_else(|| Error::damaged("a frame has too few ids"))
}
