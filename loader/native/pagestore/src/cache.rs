//! What was read of frames: their pages, or only their heads. Each is read by one thread; others that want it wait.

use std::sync::{Arc, Mutex};

use common::{Result, lock};
use rustc_hash::FxHashMap;

use crate::retired::FrameKey;

/// The runs of a segment go on where those of the one before it ended, so not all is read again that was read once.
pub trait Cached {
    /// So many bytes of them are kept.
    const KEPT: usize;

    /// What it takes of memory, about.
    fn bytes(&self) -> usize;
}

#[derive(Debug)]
pub struct Cache<T>(Mutex<Kept<T>>);

#[derive(Debug)]
struct Kept<T> {
    frames: FxHashMap<FrameKey, Slot<T>>,
    bytes: usize,
    clock: u64,
}

/// What waits to be read is not there yet.
type Room<T> = Arc<Mutex<Option<Arc<T>>>>;

#[derive(Debug)]
struct Slot<T> {
    used: u64,
    bytes: usize,
    room: Room<T>,
}

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self(Mutex::new(Kept { frames: FxHashMap::default(), bytes: 0, clock: 0 }))
    }
}

impl<T> Default for Slot<T> {
    fn default() -> Self {
        Self { used: 0, bytes: 0, room: Arc::default() }
    }
}

impl<T: Cached> Cache<T> {
    pub fn get(&self, key: FrameKey, read: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        let room = lock(&self.0).room(key);
        let mut there = lock(&room);
        if let Some(found) = &*there {
            return Ok(Arc::clone(found));
        }
        let found = Arc::new(read()?);
        *there = Some(Arc::clone(&found));
        drop(there);
        lock(&self.0).keep(key, found.bytes());
        Ok(found)
    }
}

impl<T: Cached> Kept<T> {
    fn room(&mut self, key: FrameKey) -> Room<T> {
        self.clock += 1;
        let slot = self.frames.entry(key).or_default();
        slot.used = self.clock;
        Arc::clone(&slot.room)
    }

    fn keep(&mut self, key: FrameKey, bytes: usize) {
        if let Some(slot) = self.frames.get_mut(&key) {
            self.bytes += bytes - slot.bytes;
            slot.bytes = bytes;
        }
        while self.bytes > T::KEPT && self.frames.len() > 1 {
            let oldest = self.frames.iter().min_by_key(|(_, slot)| slot.used);
            let Some(key) = oldest.map(|(key, _)| *key) else { break };
            self.bytes -= self.frames.remove(&key).map_or(0, |slot| slot.bytes);
        }
    }
}
