//! The pages of an earlier backup by their ids.

use common::{Error, Result};
use rustc_hash::FxHashMap;

use crate::assembly::Assembly;
use crate::page::{ID, PageId};
use crate::runs;

/// Consecutive pages of a backup. first: of the pages of the backup's own pack, how many came before.
#[derive(Debug, Clone)]
pub struct Segment {
    pub runs: Vec<u8>,
    pub first: u32,
    pub pages: u64,
}

/// By id: pack and number in it. Some 40 bytes of memory for each page.
#[derive(Debug, Default)]
pub struct Known(FxHashMap<PageId, (u32, u32)>);

impl Known {
    /// Of a backup with that pack of its own. retired: of a pack, so many of the pages that it uses count as not known. They
    /// will be stored again, and nobody needs them there any more.
    pub fn of(
        packs: &Assembly,
        segments: &[Segment],
        own: u32,
        retired: &[(u32, u64)],
    ) -> Result<Self> {
        let mut retired: FxHashMap<u32, u64> = retired.iter().copied().collect();
        let (mut known, mut last) =
            (Self::default(), FxHashMap::<u32, (usize, Vec<u8>)>::default());
        for segment in segments {
            for run in runs::read(&segment.runs, own, segment.first, segment.pages)? {
                let pack = packs.pack(run.pack)?;
                for page in run.start..run.start + run.count {
                    if let Some(left) = retired.get_mut(&run.pack).filter(|left| **left > 0) {
                        *left -= 1;
                        continue;
                    }
                    let (frame, place) = pack.find(page)?;
                    let there = last.entry(run.pack).or_insert((usize::MAX, Vec::new()));
                    if there.0 != frame {
                        *there = (frame, pack.ids(frame)?);
                    }
                    known.0.insert(id_at(&there.1, place)?, (run.pack, page));
                }
            }
        }
        Ok(known)
    }

    pub(crate) fn get(&self, id: &PageId) -> Option<(u32, u32)> {
        self.0.get(id).copied()
    }
}

fn id_at(ids: &[u8], place: usize) -> Result<PageId> {
    let found = ids.get(place * ID..(place + 1) * ID).and_then(|id| id.try_into().ok());
    found.ok_or_else(|| Error::damaged("a frame has too few ids"))
}
