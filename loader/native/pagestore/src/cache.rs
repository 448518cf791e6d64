//! A cache of frames or of their heads. One thread reads each; others that need it wait.

use std::sync::{Arc, Mutex};

use common::{Result, lock};
use rustc_hash::FxHashMap;

use crate::known::FrameKey;

/// Consecutive segments often need the same frame, so the cache avoids reading it twice.
pub trait Cached {
    /// Maximum number of bytes in the cache.
    const CACHE_BYTES: usize;

    /// Returns the approximate memory use in bytes.
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

/// None until the first caller has read the value.
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
        if self.bytes > T::CACHE_BYTES {
            self.evict();
        }
    }

    /// Evicts the oldest entries, more than necessary, because finding them takes a pass over all.
    fn evict(&mut self) {
        let mut ages: Vec<_> = self.frames.iter().map(|(key, slot)| (slot.used, *key)).collect();
        ages.sort_unstable();
        ages.pop(); // Keep the newest: its reader still needs it.
        for (_, key) in ages {
            if self.bytes <= T::CACHE_BYTES / 4 * 3 {
                break;
            }
            self.bytes -= self.frames.remove(&key).map_or(0, |slot| slot.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Some100(usize);

    impl Cached for Some100 {
        const CACHE_BYTES: usize = 1000;

        fn bytes(&self) -> usize {
            100 + self.0
        }
    }

    #[test]
    fn the_oldest_frames_are_evicted() {
        let (cache, mut read) = (Cache::default(), Vec::new());
        let mut ask = |number: usize| {
            let found = cache.get((0, number), || {
                read.push(number);
                Ok(Some100(number % 2))
            });
            assert_eq!(found.unwrap().0, number % 2);
        };
        (0..9).for_each(&mut ask);
        ask(0);
        ask(9); // more than fit
        [0, 9, 8, 1].into_iter().for_each(&mut ask);
        assert_eq!(read, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1]);
        let kept = lock(&cache.0);
        assert_eq!(kept.bytes, kept.frames.values().map(|slot| slot.bytes).sum::<usize>());
        assert!(kept.bytes <= Some100::CACHE_BYTES);
    }

    #[test]
    fn a_frame_that_is_too_large_is_kept_alone() {
        let cache = Cache::default();
        cache.get((0, 0), || Ok(Some100(5000))).unwrap();
        assert!(cache.get((0, 0), || panic!("the frame is read again")).is_ok());
    }
}
