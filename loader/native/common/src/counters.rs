//! Progress of a running call, which other threads can read, and its cancellation.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Error, Result, lock};

/// A file that was read completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WholeFile {
    pub path: PathBuf,
    /// Size of the file itself in bytes: the compressed size if the file is compressed.
    pub bytes: u64,
    /// XXH3 (128 bits) of the file's bytes.
    pub checksum: u128,
}

/// Entries and uncompressed bytes processed, summed over all calls that share the counters.
#[derive(Debug, Default)]
pub struct Counters {
    entries: AtomicU64,
    bytes: AtomicU64,
    cancelled: Arc<AtomicBool>,
    stage: Mutex<&'static str>,
    done: AtomicU64,
    total: AtomicU64,
    /// Limit in entries per second; 0 means no limit.
    rate: AtomicU64,
    /// When the rate limit was set, and the number of entries counted by then.
    paced: Mutex<Option<(Instant, u64)>>,
    files: Mutex<Vec<WholeFile>>,
    open_ends: Mutex<Vec<PathBuf>>,
}

/// Time between two checks for a cancellation or a new rate limit.
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

    /// Records a file that was read completely.
    pub fn read_whole(&self, file: WholeFile) {
        lock(&self.files).push(file);
    }

    /// Returns the files that were read completely.
    pub fn files(&self) -> Vec<WholeFile> {
        lock(&self.files).clone()
    }

    /// Records a file whose last line has no newline.
    pub fn ended_line(&self, path: &Path) {
        lock(&self.open_ends).push(path.to_path_buf());
    }

    /// Returns the files whose last line has no newline.
    pub fn open_ends(&self) -> Vec<PathBuf> {
        lock(&self.open_ends).clone()
    }

    pub fn cancel(&self) {
        self.cancelled.store(true, Relaxed);
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Relaxed)
    }

    /// Returns the flag that [`Self::cancel`] sets, for code that does not use counters.
    pub const fn flag(&self) -> &Arc<AtomicBool> {
        &self.cancelled
    }

    /// Begins a stage of a long call. `total` is the number of the stage's parts, or 0 if unknown.
    pub fn begin(&self, stage: &'static str, total: u64) {
        self.done.store(0, Relaxed);
        self.total.store(total, Relaxed);
        *lock(&self.stage) = stage;
    }

    /// Adds to the number of finished parts of the stage.
    pub fn advance(&self, parts: u64) {
        self.done.fetch_add(parts, Relaxed);
    }

    /// Returns the name of the stage, the number of finished parts, and the total.
    pub fn stage(&self) -> (&'static str, u64, u64) {
        let stage = *lock(&self.stage);
        (stage, self.done.load(Relaxed), self.total.load(Relaxed))
    }

    /// Limits the rate to `rate` entries per second; 0 removes the limit.
    pub fn limit(&self, rate: u64) {
        let mut paced = lock(&self.paced);
        *paced = Some((Instant::now(), self.entries()));
        self.rate.store(rate, Relaxed);
    }

    pub fn is_limited(&self) -> bool {
        self.rate.load(Relaxed) > 0
    }

    /// Waits until the rate limit allows the entries counted so far.
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

    /// Returns an error once [`Self::cancel`] was called. Long calls check once per block.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::cancelled()) } else { Ok(()) }
    }
}
