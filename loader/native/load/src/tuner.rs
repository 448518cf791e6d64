//! Adjusts the number of entries per transaction to the time that the server needs to commit them.

use std::sync::Mutex;
use std::time::Duration;

use common::lock;

/// Number of entries in the first transaction.
const FIRST: usize = 256;
const LEAST: usize = 16;
/// Maximum number of entries in a transaction. LMDB keeps the dirty pages of a transaction in a sorted list, so
/// a page costs more in a larger transaction. For 20,000 entries, slapd 2.5 took 2.3 s of CPU time in transactions of
/// 1,000 entries, 3.4 s in transactions of 5,000 entries, and 12.9 s in a single transaction.
const MOST: usize = 1024;
/// Commit times between which the size stays the same. After a shorter commit, transactions get twice as many entries;
/// after a longer commit, half as many.
const FAIR: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(1)];

#[derive(Debug)]
pub struct BatchSize {
    state: Mutex<State>,
    fixed: bool,
}

#[derive(Debug)]
struct State {
    size: usize,
    largest: usize,
}

impl BatchSize {
    /// A `size` of 0 is adjusted to the server; any other size is never changed.
    pub fn new(size: usize) -> Self {
        let first = if size == 0 { FIRST } else { size };
        Self { state: Mutex::new(State { size: first, largest: 0 }), fixed: size != 0 }
    }

    pub fn size(&self) -> usize {
        lock(&self.state).size
    }

    /// Adjusts the size after a transaction of `entries` entries, whose commit took `time`.
    pub fn learn(&self, entries: usize, time: Duration) {
        let mut state = lock(&self.state);
        state.largest = state.largest.max(entries);
        if self.fixed || entries < state.size {
            return;
        }
        if time < FAIR[0] {
            state.size = (state.size * 2).min(MOST);
        } else if time > FAIR[1] {
            state.size = (state.size / 2).max(LEAST);
        }
    }

    /// Returns the number of entries in the largest transaction so far.
    pub fn largest(&self) -> usize {
        lock(&self.state).largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_grows_after_short_commits_and_shrinks_after_long_ones() {
        let tuner = BatchSize::new(0);
        tuner.learn(FIRST, Duration::from_millis(20));
        assert_eq!(tuner.size(), 2 * FIRST);
        tuner.learn(2 * FIRST, Duration::from_millis(500));
        assert_eq!(tuner.size(), 2 * FIRST);
        tuner.learn(2 * FIRST, Duration::from_secs(3));
        assert_eq!(tuner.size(), FIRST);
        tuner.learn(3, Duration::from_millis(1));
        assert_eq!((tuner.size(), tuner.largest()), (FIRST, 2 * FIRST));
    }

    #[test]
    fn a_requested_size_is_never_adjusted() {
        let tuner = BatchSize::new(100);
        tuner.learn(100, Duration::from_millis(1));
        assert_eq!(tuner.size(), 100);
    }
}
