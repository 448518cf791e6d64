//! Packs, and the pages of a backup put together from them again.

use std::sync::{Arc, Mutex, PoisonError};

use common::{Error, Result};
use rustc_hash::FxHashMap;

use crate::frame::Frame;
use crate::known::Segment;
use crate::pack::Pack;
use crate::page::Shape;
use crate::runs;

/// Bytes of frames that are kept: the runs of a segment go on where those of the one before it ended.
const KEPT: usize = 96 << 20;

/// All packs that a backup needs, by number.
#[derive(Debug)]
pub struct Assembly {
    packs: FxHashMap<u32, Pack>,
    shape: Shape,
    cache: Mutex<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    frames: FxHashMap<(u32, usize), (u64, Arc<Frame>)>,
    bytes: usize,
    clock: u64,
}

impl Assembly {
    pub fn new(packs: impl IntoIterator<Item = (u32, Pack)>, shape: Shape) -> Self {
        Self { packs: packs.into_iter().collect(), shape, cache: Mutex::default() }
    }

    pub fn pack(&self, number: u32) -> Result<&Pack> {
        let what = || Error::damaged("the list of its pages names a pack that it does not have");
        self.packs.get(&number).ok_or_else(what)
    }

    /// What the pages of a segment come to.
    pub fn bytes(&self, segment: &Segment) -> Result<usize> {
        let pages = usize::try_from(segment.pages).ok();
        let bytes = pages.and_then(|pages| pages.checked_mul(self.shape.page_size));
        bytes.ok_or_else(wrong)
    }

    /// Fills `data`, of so many bytes, with the pages of a segment, the first of which has the number `first`.
    pub fn fill(&self, segment: &Segment, own: u32, first: u64, data: &mut [u8]) -> Result<()> {
        let runs = runs::read(&segment.runs, own, segment.first, segment.pages)?;
        let mut room = (first..).zip(data.chunks_exact_mut(self.shape.page_size));
        for run in runs {
            let pack = self.pack(run.pack)?;
            let (mut page, end) = (run.start, run.start + run.count);
            while page < end {
                let (place, mut within) = pack.find(page)?;
                let frame = self.frame(run.pack, place)?;
                while page < end && within < frame.pages() {
                    let (number, to) = room.next().ok_or_else(wrong)?;
                    let (bytes, masked) = frame.page(within);
                    to.copy_from_slice(bytes);
                    if masked {
                        self.shape.number(to, number);
                    }
                    (page, within) = (page + 1, within + 1);
                }
            }
        }
        Ok(())
    }

    fn frame(&self, pack: u32, number: usize) -> Result<Arc<Frame>> {
        let key = (pack, number);
        if let Some(frame) = self.cached(key) {
            return Ok(frame);
        }
        let frame = Arc::new(self.pack(pack)?.frame(number)?);
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.keep(key, Arc::clone(&frame));
        Ok(frame)
    }

    fn cached(&self, key: (u32, usize)) -> Option<Arc<Frame>> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.clock += 1;
        let now = cache.clock;
        let (used, frame) = cache.frames.get_mut(&key)?;
        *used = now;
        Some(Arc::clone(frame))
    }
}

fn wrong() -> Error {
    Error::damaged("the list of its pages makes no sense")
}

impl Cache {
    fn keep(&mut self, key: (u32, usize), frame: Arc<Frame>) {
        self.bytes += frame.bytes();
        if let Some((_, former)) = self.frames.insert(key, (self.clock, frame)) {
            self.bytes -= former.bytes();
        }
        while self.bytes > KEPT && self.frames.len() > 1 {
            let oldest = self.frames.iter().min_by_key(|(_, (used, _))| *used);
            let Some(key) = oldest.map(|(key, _)| *key) else { break };
            self.bytes -= self.frames.remove(&key).map_or(0, |(_, frame)| frame.bytes());
        }
    }
}
