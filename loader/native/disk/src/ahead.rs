//! Reads parts of a file into the page cache before they are needed.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::Builder;

use rustix::fs::{Advice, fadvise};

use crate::memory;

/// Bytes of a window, the unit of reading if the whole file fits in memory. A device takes as long for 16 KiB as for
/// 4 KiB, and reaches its full speed at 128 KiB.
const WINDOW: u64 = 256 << 10;

/// The requests count as scattered if the windows read so far exceed `SAMPLE` bytes and 1/`SHARE` of the file, although
/// less than 1/`SHARE` of their bytes were requested.
const SAMPLE: u64 = 64 << 20;
const SHARE: u64 = 8;

/// Readahead for a reader that needs the whole file, but not in the order of the file.
///
/// If the file fits in memory, it is read in windows, each once, because in the end all bytes are needed. Otherwise
/// only the requested bytes are read, because their neighbours would be evicted before they are needed.
#[derive(Debug)]
pub struct Readahead {
    file: File,
    /// Readahead stays within this number of bytes from the beginning of the file.
    length: u64,
    /// A bit for each window, set once the window was requested; `None` if the file does not fit in memory.
    requested: Option<Box<[AtomicU64]>>,
    /// Whether the requests count as scattered over the whole file.
    scattered: AtomicBool,
    requested_bytes: AtomicU64,
    /// Bytes of the windows that were read.
    read: AtomicU64,
}

impl Readahead {
    pub fn new(file: &File, length: u64) -> io::Result<Arc<Self>> {
        let length = length.min(file.metadata()?.len());
        // A quarter of the memory is left for other processes.
        let fits = length <= memory::available() / 4 * 3;
        let words = usize::try_from(length.div_ceil(WINDOW).div_ceil(64)).unwrap_or(0);
        let requested = fits.then(|| (0..words).map(|_| AtomicU64::new(0)).collect());
        let (scattered, requested_bytes, read) = Default::default();
        let file = file.try_clone()?;
        Ok(Arc::new(Self { file, length, requested, scattered, requested_bytes, read }))
    }

    /// Returns whether the whole file fits in memory.
    pub fn has_room(&self) -> bool {
        self.requested.is_some()
    }

    /// Starts readahead of `length` bytes from offset `start` on.
    pub fn request(self: &Arc<Self>, start: u64, length: u64) {
        let end = start.saturating_add(length).min(self.length);
        if !self.has_room() {
            return self.advise(start, end);
        }
        self.requested_bytes.fetch_add(end.saturating_sub(start), Relaxed);
        for window in start / WINDOW..end.div_ceil(WINDOW) {
            if !self.request_window(window) {
                continue;
            }
            let read = self.read.fetch_add(WINDOW, Relaxed);
            if read > SAMPLE.max(self.length / SHARE) && self.requested_bytes.load(Relaxed) < read / SHARE {
                self.read_whole_file();
            }
        }
    }

    /// Reads the whole file into the page cache in the background, if it fits in memory. The reading ends early when
    /// all other owners of `self` are gone.
    pub fn read_whole_file(self: &Arc<Self>) {
        if self.has_room() && !self.scattered.swap(true, Relaxed) {
            let own = Arc::clone(self);
            let sweep = move || {
                let mut windows = 0..own.length.div_ceil(WINDOW);
                while let Some(window) = windows.next().filter(|_| Arc::strong_count(&own) > 1) {
                    own.request_window(window);
                }
            };
            // If the thread cannot be started, there is only less readahead.
            let _ = Builder::new().name("sweep".into()).spawn(sweep);
        }
    }

    /// Starts readahead of these bytes alone, because the bytes around them are read past the cache. If the requests
    /// are scattered, starts readahead of whole windows instead.
    pub fn request_run(self: &Arc<Self>, start: u64, length: u64) {
        if self.scattered.load(Relaxed) {
            self.request(start, length);
        } else {
            self.advise(start, start.saturating_add(length));
        }
    }

    /// Starts readahead of a window unless it has been requested before. Returns whether it was new.
    fn request_window(&self, window: u64) -> bool {
        let bit = 1 << (window % 64);
        let word = usize::try_from(window / 64).ok().and_then(|at| self.requested.as_ref()?.get(at));
        let is_new = word.is_some_and(|word| word.fetch_or(bit, Relaxed) & bit == 0);
        if is_new {
            self.advise(window * WINDOW, (window + 1) * WINDOW);
        }
        is_new
    }

    fn advise(&self, start: u64, end: u64) {
        let length = end.min(self.length).saturating_sub(start).try_into().ok();
        // Errors are ignored, because this is only a hint. For fadvise, length 0 means up to the end of the file.
        if length.is_some() {
            let _ = fadvise(&self.file, start, length, Advice::WillNeed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn opened(length: u64) -> (tempfile::NamedTempFile, Arc<Readahead>) {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(length).unwrap();
        let ahead = Readahead::new(file.as_file(), length).unwrap();
        (file, ahead)
    }

    fn requested(ahead: &Readahead) -> u32 {
        ahead.requested.iter().flatten().map(|word| word.load(Relaxed).count_ones()).sum()
    }

    #[test]
    fn each_window_once_and_none_beyond_the_end() {
        let (_file, ahead) = opened(10 * WINDOW + 5);
        ahead.request(WINDOW - 1, 2);
        assert_eq!((requested(&ahead), ahead.read.load(Relaxed)), (2, 2 * WINDOW));
        ahead.request(0, 2 * WINDOW);
        assert_eq!(ahead.read.load(Relaxed), 2 * WINDOW);
        ahead.request(10 * WINDOW, u64::MAX);
        ahead.request(u64::MAX, u64::MAX);
        ahead.request_run(3 * WINDOW, 1);
        assert_eq!(requested(&ahead), 3);
    }

    #[test]
    fn a_scattered_file_is_read_whole() {
        let (_file, ahead) = opened(4096 * WINDOW);
        for page in 0..1024 {
            ahead.request(page * 3 * WINDOW, 4096);
        }
        let end = Instant::now() + Duration::from_secs(60);
        while requested(&ahead) < 4096 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(requested(&ahead), 4096);
    }

    #[test]
    fn a_file_read_in_order_is_not_read_whole() {
        let (_file, ahead) = opened(4096 * WINDOW);
        (0..1024 * 64).for_each(|page| ahead.request(page * 4096, 4096));
        assert!(!ahead.scattered.load(Relaxed));
        assert_eq!(requested(&ahead), 1024);
    }
}
