//! How many entries a transaction takes: as many as the server commits in a fair time.

use std::sync::Mutex;
use std::time::Duration;

use common::lock;

/// Nobody knows the server yet.
const FIRST: usize = 256;
const LEAST: usize = 16;
/// LMDB keeps the pages that a transaction changes in a sorted list, which costs more and more: slapd 2.5 took 2.3 s
/// of processor time for 20,000 entries in transactions of 1,000, 3.4 s in those of 5,000, 12.9 s in one.
const MOST: usize = 1024;
/// Commits that are shorter than the first are made of more, longer than the second of fewer.
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
    /// With `size` 0 it is found out.
    pub fn new(size: usize) -> Self {
        let first = if size == 0 { FIRST } else { size };
        Self { state: Mutex::new(State { size: first, largest: 0 }), fixed: size != 0 }
    }

    pub fn size(&self) -> usize {
        lock(&self.state).size
    }

    /// So many entries were committed, in so much time.
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

    /// The most entries that were committed at once.
    pub fn largest(&self) -> usize {
        lock(&self.state).largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_while_commits_are_short_and_shrinks_when_they_are_long() {
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
    fn a_size_that_was_asked_for_stays() {
        let tuner = BatchSize::new(100);
        tuner.learn(100, Duration::from_millis(1));
        assert_eq!(tuner.size(), 100);
    }
}
