//! Stopping a load without breaking off a commit.
//!
//! A slapd (2.5 and 2.6) whose client goes while it works on the end of a transaction frees the entries that it
//! works on, and crashes. So whoever waits for a commit is left in peace, for a while, when the load is cancelled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use common::Counters;

const PATIENCE: Duration = Duration::from_millis(50);

/// So long a commit may take once the load was cancelled.
const COMMIT: Duration = Duration::from_secs(60);

/// What stops one connection, and whether it commits.
#[derive(Debug, Default)]
pub struct Shutdown {
    stop: Arc<Counters>,
    committing: AtomicBool,
}

impl Shutdown {
    /// For the connection.
    pub const fn stop(&self) -> &Arc<Counters> {
        &self.stop
    }

    /// Does what must not be broken off.
    pub fn without_interruption<T>(&self, work: impl FnOnce() -> T) -> T {
        self.committing.store(true, Relaxed);
        let done = work();
        self.committing.store(false, Relaxed);
        done
    }
}

/// Passes on that the load is cancelled, until it has ended.
pub fn pass_on(counters: &Counters, all: &[Shutdown], ended: &AtomicBool) {
    while !counters.is_cancelled() {
        if ended.load(Relaxed) {
            return;
        }
        thread::sleep(PATIENCE);
    }
    let begun = Instant::now();
    while !ended.load(Relaxed) {
        for calm in all {
            if !calm.committing.load(Relaxed) || begun.elapsed() > COMMIT {
                calm.stop.cancel();
            }
        }
        thread::sleep(PATIENCE);
    }
}
