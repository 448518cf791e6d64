//! The pages of a stream into those that are known and those that are new.

use common::Result;
use rustc_hash::FxHashMap;

use crate::frame::{ENTRY, Making, PAGES};
use crate::known::Known;
use crate::page::{Shape, id};
use crate::runs::Writer;

/// The level of zstd for the few pages that are new among many that are known.
const THOROUGH: i32 = 9;

/// Of some consecutive pages: the runs that they are, the frames of new pages and what an index tells of these. used: pages
/// of each pack.
#[derive(Debug, Default)]
pub struct Sifted {
    pub runs: Vec<u8>,
    pub frames: Vec<u8>,
    pub entries: Vec<u8>,
    pub used: Vec<(u32, u64)>,
}

/// `data`: whole pages, the first of that number. New ones are for pack `own`; the first of them has the number 0 here.
pub fn sift(
    known: &Known,
    shape: Shape,
    own: u32,
    data: &mut [u8],
    first: u64,
    level: i32,
) -> Result<Sifted> {
    let (mut sifted, mut runs, mut frame) =
        (Sifted::default(), Writer::new(own), Making::default());
    let (mut fresh, mut used) = (0, FxHashMap::default());
    for (number, page) in (first..).zip(data.chunks_exact_mut(shape.page_size)) {
        let masked = shape.mask(page, number);
        let id = id(page, masked);
        let (pack, index) = known.get(&id).unwrap_or((own, fresh));
        runs.add(pack, index);
        *used.entry(pack).or_default() += 1;
        if pack == own {
            frame.add(page, masked, &id);
            fresh += 1;
        }
        if frame.len() == PAGES {
            sifted.keep(std::mem::take(&mut frame), level)?;
        }
    }
    if frame.len() > 0 {
        sifted.keep(frame, level.max(THOROUGH))?;
    }
    Ok(Sifted { runs: runs.finish(), used: used.into_iter().collect(), ..sifted })
}

impl Sifted {
    fn keep(&mut self, frame: Making, level: i32) -> Result<()> {
        self.entries.reserve(ENTRY);
        frame.finish(level, &mut self.frames)?.write(&mut self.entries);
        Ok(())
    }
}
