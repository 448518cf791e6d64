//! A cache of frames or of their heads. Each value is read by one thread, while others that need the value wait.

use std::sync::{Arc, Mutex};

use common::{Result, lock};
use rustc_hash::FxHashMap;

use crate::known::FrameKey;

/// A value that is worth caching, because consecutive segments often need the same frame.
pub trait Cached {
    /// Maximum size of the cache in bytes. The value used last stays even if it is larger.
    const CACHE_BYTES: usize;

    /// Returns the approximate size of the value in memory, in bytes.
    fn bytes(&self) -> usize;
}

#[derive(Debug)]
pub struct Cache<T>(Mutex<Slots<T>>);

#[derive(Debug)]
struct Slots<T> {
    frames: FxHashMap<FrameKey, Slot<T>>,
    bytes: usize,
    /// Number of look-ups, by which `Slot::used` is measured.
    clock: u64,
}

/// `None` until the first caller has read the value.
type Value<T> = Arc<Mutex<Option<Arc<T>>>>;

#[derive(Debug)]
struct Slot<T> {
    used: u64,
    bytes: usize,
    value: Value<T>,
}

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self(Mutex::new(Slots { frames: FxHashMap::default(), bytes: 0, clock: 0 }))
    }
}

impl<T: Cached> Cache<T> {
    pub fn get(&self, key: FrameKey, read: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        let slot = lock(&self.0).value(key);
        let mut cached = lock(&slot);
        if let Some(value) = &*cached {
            return Ok(Arc::clone(value));
        }
        let value = Arc::new(read()?);
        *cached = Some(Arc::clone(&value));
        drop(cached);
        lock(&self.0).count(key, value.bytes());
        Ok(value)
    }
}

impl<T: Cached> Slots<T> {
    fn value(&mut self, key: FrameKey) -> Value<T> {
        self.clock += 1;
        let slot = self.frames.entry(key).or_insert_with(|| Slot { used: 0, bytes: 0, value: Arc::default() });
        slot.used = self.clock;
        Arc::clone(&slot.value)
    }

    /// Adds the size of a value that has been read, and evicts others if the cache is too large.
    fn count(&mut self, key: FrameKey, bytes: usize) {
        if let Some(slot) = self.frames.get_mut(&key) {
            self.bytes += bytes - slot.bytes;
            slot.bytes = bytes;
        }
        if self.bytes > T::CACHE_BYTES {
            self.evict();
        }
    }

    /// Evicts the least recently used values, a quarter of the cache at once, because it takes a pass over all values.
    fn evict(&mut self) {
        let mut ages: Vec<_> = self.frames.iter().map(|(key, slot)| (slot.used, *key)).collect();
        ages.sort_unstable();
        ages.pop(); // The value used last stays.
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
        let slots = lock(&cache.0);
        assert_eq!(slots.bytes, slots.frames.values().map(|slot| slot.bytes).sum::<usize>());
        assert!(slots.bytes <= Some100::CACHE_BYTES);
    }

    #[test]
    fn a_frame_that_is_too_large_is_kept_alone() {
        let cache = Cache::default();
        cache.get((0, 0), || Ok(Some100(5000))).unwrap();
        assert!(cache.get((0, 0), || panic!("the frame is read again")).is_ok());
    }
}
