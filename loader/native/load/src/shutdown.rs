//! Stops a load without interrupting a commit.
//!
//! If the client disconnects while slapd (2.5 and 2.6) processes the end of a transaction, slapd frees entries that it
//! still uses, and crashes. So if a load is cancelled, a connection that waits for a commit is not closed at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use common::Counters;

/// Time between two checks whether the load is cancelled or has ended.
const INTERVAL: Duration = Duration::from_millis(50);
/// If a commit takes longer than this after the load is cancelled, its connection is closed nevertheless.
const COMMIT: Duration = Duration::from_secs(60);

/// The stop flag of a connection, and whether the connection is waiting for a commit.
#[derive(Debug, Default)]
pub struct Shutdown {
    stop: Arc<Counters>,
    committing: AtomicBool,
}

impl Shutdown {
    /// Returns the flag that makes the connection stop.
    pub const fn stop(&self) -> &Arc<Counters> {
        &self.stop
    }

    /// Runs `work`. If the load is cancelled meanwhile, [`pass_on`] stops the connection only after [`COMMIT`].
    pub fn without_interruption<T>(&self, work: impl FnOnce() -> T) -> T {
        self.committing.store(true, Relaxed);
        let done = work();
        self.committing.store(false, Relaxed);
        done
    }
}

/// Waits until the load is cancelled or has ended. If the load is cancelled, stops the connections.
pub fn pass_on(counters: &Counters, all: &[Shutdown], ended: &AtomicBool) {
    while !counters.is_cancelled() {
        if ended.load(Relaxed) {
            return;
        }
        thread::sleep(INTERVAL);
    }
    let begun = Instant::now();
    while !ended.load(Relaxed) {
        for shutdown in all {
            if !shutdown.committing.load(Relaxed) || begun.elapsed() > COMMIT {
                shutdown.stop.cancel();
            }
        }
        thread::sleep(INTERVAL);
    }
}
