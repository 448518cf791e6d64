//! What a running call has done so far, readable from other threads, and the way to stop it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Error, Result, lock};

/// A file as it was read from its beginning to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeFile {
    pub path: PathBuf,
    /// As it lies on the disk, compressed or not.
    pub bytes: u64,
    /// XXH3 of 128 bits of these bytes.
    pub checksum: u128,
}

/// Entries and uncompressed bytes passed, summed over all calls that share this.
#[derive(Debug, Default)]
pub struct Counters {
    entries: AtomicU64,
    bytes: AtomicU64,
    cancelled: Arc<AtomicBool>,
    stage: Mutex<&'static str>,
    done: AtomicU64,
    total: AtomicU64,
    /// Entries a second; 0 is as fast as can be.
    rate: AtomicU64,
    /// Since when the rate holds, and how many entries had passed.
    paced: Mutex<Option<(Instant, u64)>>,
    files: Mutex<Vec<WholeFile>>,
    open_ends: Mutex<Vec<PathBuf>>,
}

/// The longest wait in one piece, so that cancelling and another rate are soon felt.
const NAP: Duration = Duration::from_millis(50);

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

    /// A file was read to its end.
    pub fn read_whole(&self, file: WholeFile) {
        lock(&self.files).push(file);
    }

    /// The files that were read to their ends.
    pub fn files(&self) -> Vec<WholeFile> {
        lock(&self.files).clone()
    }

    /// The last line of a file had no end.
    pub fn ended_line(&self, path: &Path) {
        lock(&self.open_ends).push(path.to_path_buf());
    }

    /// The files whose last line had no end.
    pub fn open_ends(&self) -> Vec<PathBuf> {
        lock(&self.open_ends).clone()
    }

    pub fn cancel(&self) {
        self.cancelled.store(true, Relaxed);
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Relaxed)
    }

    /// The flag that [`Self::cancel`] raises, for those who know no counters.
    pub const fn flag(&self) -> &Arc<AtomicBool> {
        &self.cancelled
    }

    /// Another stage of a long call begins; `total` counts its parts, 0 when they are not known.
    pub fn begin(&self, stage: &'static str, total: u64) {
        self.done.store(0, Relaxed);
        self.total.store(total, Relaxed);
        *lock(&self.stage) = stage;
    }

    /// Parts of the stage are done.
    pub fn advance(&self, parts: u64) {
        self.done.fetch_add(parts, Relaxed);
    }

    /// The stage, and how many of its parts are done of how many.
    pub fn stage(&self) -> (&'static str, u64, u64) {
        let stage = *lock(&self.stage);
        (stage, self.done.load(Relaxed), self.total.load(Relaxed))
    }

    /// From now on no more than `rate` entries a second; 0 is as fast as can be.
    pub fn limit(&self, rate: u64) {
        let mut paced = lock(&self.paced);
        *paced = Some((Instant::now(), self.entries()));
        self.rate.store(rate, Relaxed);
    }

    /// Whether there is a rate to be kept.
    pub fn is_limited(&self) -> bool {
        self.rate.load(Relaxed) > 0
    }

    /// Waits as long as more entries have passed than the rate allows.
    pub fn pace(&self) {
        while self.is_ahead() && !self.is_cancelled() {
            thread::sleep(NAP);
        }
    }

    fn is_ahead(&self) -> bool {
        let rate = self.rate.load(Relaxed);
        if rate == 0 {
            return false;
        }
        let paced = *lock(&self.paced);
        let Some((since, before)) = paced else { return false };
        let due = since.elapsed().as_millis() * u128::from(rate) / 1000;
        u128::from(self.entries().saturating_sub(before)) > due
    }

    /// An error once [`Self::cancel`] was called; long calls ask once a block.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::cancelled()) } else { Ok(()) }
    }
}
