//! Frames that were unpacked. Each is unpacked by one thread; others that want it wait.

use std::sync::{Arc, Mutex};

use common::{Result, lock};
use rustc_hash::FxHashMap;

use crate::frame::Frame;
use crate::retired::FrameKey;

/// Bytes of frames that are kept: the runs of a segment go on where those of the one before it ended.
const KEPT: usize = 96 << 20;

#[derive(Debug, Default)]
pub struct Cache(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    frames: FxHashMap<FrameKey, Slot>,
    bytes: usize,
    clock: u64,
}

#[derive(Debug, Default)]
struct Slot {
    used: u64,
    bytes: usize,
    frame: Arc<Mutex<Option<Arc<Frame>>>>,
}

impl Cache {
    pub fn get(&self, key: FrameKey, unpack: impl FnOnce() -> Result<Frame>) -> Result<Arc<Frame>> {
        let slot = lock(&self.0).slot(key);
        let mut room = lock(&slot);
        if let Some(frame) = &*room {
            return Ok(Arc::clone(frame));
        }
        let frame = Arc::new(unpack()?);
        *room = Some(Arc::clone(&frame));
        drop(room);
        lock(&self.0).keep(key, frame.bytes());
        Ok(frame)
    }
}

impl Kept {
    fn slot(&mut self, key: FrameKey) -> Arc<Mutex<Option<Arc<Frame>>>> {
        self.clock += 1;
        let slot = self.frames.entry(key).or_default();
        slot.used = self.clock;
        Arc::clone(&slot.frame)
    }

    fn keep(&mut self, key: FrameKey, bytes: usize) {
        if let Some(slot) = self.frames.get_mut(&key) {
            self.bytes += bytes - slot.bytes;
            slot.bytes = bytes;
        }
        while self.bytes > KEPT && self.frames.len() > 1 {
            let oldest = self.frames.iter().min_by_key(|(_, slot)| slot.used);
            let Some(key) = oldest.map(|(key, _)| *key) else { break };
            self.bytes -= self.frames.remove(&key).map_or(0, |slot| slot.bytes);
        }
    }
}
