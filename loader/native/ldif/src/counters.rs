//! What a running call has done so far, readable from other threads, and the way to stop it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::{Code, Error, Result};

/// Entries and uncompressed bytes passed, summed over all calls that share this.
#[derive(Debug, Default)]
pub struct Counters {
    entries: AtomicU64,
    bytes: AtomicU64,
    cancelled: AtomicBool,
}

impl Counters {
    pub fn entries(&self) -> u64 {
        self.entries.load(Relaxed)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    pub fn add(&self, entries: u64, bytes: u64) {
        self.entries.fetch_add(entries, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    pub fn cancel(&self) {
        self.cancelled.store(true, Relaxed);
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Relaxed)
    }

    /// An error once [`Self::cancel`] was called; long calls ask once a block.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::new(Code::Cancelled, "cancelled")) } else { Ok(()) }
    }

    /// A wait that was broken off shows as an error of the pipe; its reason is the cancelling.
    pub fn explain(&self, error: impl Into<Error>) -> Error {
        self.check().err().unwrap_or_else(|| error.into())
    }
}
