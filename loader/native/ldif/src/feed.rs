//! Passes blocks of whole records from several readers to one consumer without a file.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use common::lock;

use crate::{Code, Counters, Error, Result};

/// Interval at which a waiting thread checks whether its call was cancelled.
const PATIENCE: Duration = Duration::from_millis(100);

/// A bounded queue of blocks; the faster side waits for the other.
#[derive(Debug)]
pub struct Feed {
    state: Mutex<State>,
    changed: Condvar,
    capacity: usize,
    repeated: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    blocks: VecDeque<Vec<u8>>,
    /// Buffers of consumed blocks, for reuse.
    used: Vec<Vec<u8>>,
    end: Option<FeedEnd>,
}

#[derive(Debug, Clone, Copy)]
enum FeedEnd {
    /// All blocks have been pushed.
    Closed,
    /// One side failed, so the other side no longer waits.
    Broken,
}

impl Feed {
    /// Creates a queue of at most `capacity` blocks.
    pub fn new(capacity: usize) -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            capacity: capacity.max(1),
            repeated: AtomicBool::new(false),
        }
    }

    /// Adds a block as soon as the queue has room. Returns an empty buffer for the next block.
    ///
    /// # Errors
    /// `Cancelled` if `stop` is cancelled or the feed is broken.
    pub fn push(&self, block: Vec<u8>, stop: &Counters) -> Result<Vec<u8>> {
        let mut state = self.wait(stop, |state| state.blocks.len() < self.capacity)?;
        state.blocks.push_back(block);
        let mut buffer = state.used.pop().unwrap_or_default();
        drop(state);
        self.changed.notify_all();
        buffer.clear();
        Ok(buffer)
    }

    /// Returns the next block, or `None` at the end. `used` is a buffer for reuse.
    ///
    /// # Errors
    /// `Cancelled` if `stop` is cancelled or the feed is broken.
    pub fn take(&self, used: Vec<u8>, stop: &Counters) -> Result<Option<Vec<u8>>> {
        let ready = |state: &State| !state.blocks.is_empty() || state.end.is_some();
        let mut state = self.wait(stop, ready)?;
        if state.used.len() < self.capacity {
            state.used.push(used);
        }
        let block = state.blocks.pop_front();
        drop(state);
        self.changed.notify_all();
        Ok(block)
    }

    /// Ends the feed: no block follows the ones in the queue.
    pub fn close(&self) {
        self.end(FeedEnd::Closed);
    }

    /// Ends all waits with an error, because one side failed.
    pub fn break_off(&self) {
        self.end(FeedEnd::Broken);
    }

    /// Records that some entries may have been pushed more than once.
    pub fn repeat(&self) {
        self.repeated.store(true, Relaxed);
    }

    pub fn is_repeated(&self) -> bool {
        self.repeated.load(Relaxed)
    }

    fn end(&self, end: FeedEnd) {
        lock(&self.state).end = Some(end);
        self.changed.notify_all();
    }

    fn wait(&self, stop: &Counters, ready: impl Fn(&State) -> bool) -> Result<MutexGuard<'_, State>> {
        let mut state = lock(&self.state);
        loop {
            stop.check()?;
            if matches!(state.end, Some(FeedEnd::Broken)) {
                return Err(Error::new(Code::Cancelled, "the other side of the feed failed"));
            }
            if ready(&state) {
                return Ok(state);
            }
            let waited = self.changed.wait_timeout(state, PATIENCE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn blocks_keep_their_order_and_the_faster_side_waits() {
        let (feed, stop) = (Feed::new(2), Counters::default());
        thread::scope(|scope| {
            scope.spawn(|| {
                (0..100u8).for_each(|number| {
                    feed.push(vec![number], &stop).unwrap();
                });
                feed.close();
            });
            for number in 0..100u8 {
                assert_eq!(feed.take(Vec::new(), &stop).unwrap(), Some(vec![number]));
            }
            assert_eq!(feed.take(Vec::new(), &stop).unwrap(), None);
        });
    }

    #[test]
    fn a_broken_feed_or_a_cancelled_call_ends_all_waits() {
        let (feed, stop) = (Feed::new(1), Counters::default());
        feed.push(Vec::new(), &stop).unwrap();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| feed.push(Vec::new(), &stop));
            thread::sleep(Duration::from_millis(20));
            feed.break_off();
            assert_eq!(waiting.join().unwrap().unwrap_err().code, Code::Cancelled);
        });
        assert_eq!(feed.take(Vec::new(), &stop).unwrap_err().code, Code::Cancelled);
        let (feed, stop) = (Feed::new(1), Counters::default());
        stop.cancel();
        assert_eq!(feed.take(Vec::new(), &stop).unwrap_err().code, Code::Cancelled);
    }
}
