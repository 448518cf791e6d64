//! Parts of a file read into the page cache before they are asked for.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::Builder;

use rustix::fs::{Advice, fadvise};

use crate::memory;

/// Bytes that are read together where all of the file has room in memory. A device takes as long for
/// 16 KiB as for 4, and from 128 KiB on is as fast as it can be.
const WINDOW: u64 = 256 << 10;

/// Bytes of windows after which it shows whether a file is scattered; or a share of it, if that is more.
const SAMPLE: u64 = 64 << 20;
const SHARE: u64 = 8;

/// What is wanted soon of a file, by whoever reads it in an order of their own.
///
/// Where the file has room in memory it is read in windows, each once, whatever of them is wanted: in
/// the end all is. Where it has not, what lies around would be gone before anybody came for it, and no more is read than
/// was said.
#[derive(Debug)]
pub struct Readahead {
    file: File,
    /// Bytes of the file that count.
    length: u64,
    /// A bit for each window that was asked for; `None` where the file has no room.
    asked: Option<Box<[AtomicU64]>>,
    /// What was wanted lies all over the file.
    scattered: AtomicBool,
    /// Bytes that were wanted, and those of the windows that were read for it.
    wanted: AtomicU64,
    read: AtomicU64,
}

impl Readahead {
    pub fn new(file: &File, length: u64) -> io::Result<Arc<Self>> {
        let length = length.min(file.metadata()?.len());
        // The rest is for what goes on beside.
        let fits = length <= memory::available() / 4 * 3;
        let words = usize::try_from(length.div_ceil(WINDOW).div_ceil(64)).unwrap_or(0);
        let asked = fits.then(|| (0..words).map(|_| AtomicU64::new(0)).collect());
        let (scattered, wanted, read) = Default::default();
        let file = file.try_clone()?;
        Ok(Arc::new(Self { file, length, asked, scattered, wanted, read }))
    }

    /// Whether all of the file has room in memory.
    pub fn has_room(&self) -> bool {
        self.asked.is_some()
    }

    /// So many bytes from `start` on will be read.
    pub fn request(self: &Arc<Self>, start: u64, length: u64) {
        let end = start.saturating_add(length).min(self.length);
        if !self.has_room() {
            return self.advise(start, end);
        }
        self.wanted.fetch_add(end.saturating_sub(start), Relaxed);
        for window in start / WINDOW..end.div_ceil(WINDOW) {
            if self.want_window(window) {
                self.look(self.read.fetch_add(WINDOW, Relaxed));
            }
        }
    }

    /// The file is scattered when windows are read for the sake of little in each.
    fn look(self: &Arc<Self>, read: u64) {
        if read > SAMPLE.max(self.length / SHARE) && self.wanted.load(Relaxed) < read / SHARE {
            self.read_whole_file();
        }
    }

    /// What is read one after the other lies all over the file: from now on all is read, wanted or not, from its
    /// beginning on, until nobody reads any more.
    pub fn read_whole_file(self: &Arc<Self>) {
        if self.has_room() && !self.scattered.swap(true, Relaxed) {
            let own = Arc::clone(self);
            // Without the thread there is only less that is read ahead.
            let _ = Builder::new().name("sweep".into()).spawn(move || own.sweep());
        }
    }

    fn sweep(self: Arc<Self>) {
        let windows = 0..self.length.div_ceil(WINDOW);
        for window in windows.take_while(|_| Arc::strong_count(&self) > 1) {
            self.want_window(window);
        }
    }

    /// The same of what stands among bytes that are read otherwise, unless the file is scattered.
    pub fn want_only(self: &Arc<Self>, start: u64, length: u64) {
        if self.scattered.load(Relaxed) {
            self.request(start, length);
        } else {
            self.advise(start, start.saturating_add(length));
        }
    }

    /// Whether it has been asked for just now.
    fn want_window(&self, window: u64) -> bool {
        let first = self.asked.as_ref().is_some_and(|asked| is_first(asked, window));
        if first {
            self.advise(window * WINDOW, (window + 1) * WINDOW);
        }
        first
    }

    fn advise(&self, start: u64, end: u64) {
        let length = end.min(self.length).saturating_sub(start).try_into().ok();
        // It is a hint: reading without it tells what is wrong. No length would mean all of the file.
        if length.is_some() {
            let _ = fadvise(&self.file, start, length, Advice::WillNeed);
        }
    }
}

/// Whether nobody has asked for the window before.
fn is_first(asked: &[AtomicU64], window: u64) -> bool {
    let bit = 1 << (window % 64);
    let word = usize::try_from(window / 64).ok().and_then(|at| asked.get(at));
    word.is_some_and(|word| word.fetch_or(bit, Relaxed) & bit == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn made(length: u64) -> (tempfile::NamedTempFile, Arc<Readahead>) {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(length).unwrap();
        let ahead = Readahead::new(file.as_file(), length).unwrap();
        (file, ahead)
    }

    fn asked(ahead: &Readahead) -> u32 {
        ahead.asked.iter().flatten().map(|word| word.load(Relaxed).count_ones()).sum()
    }

    #[test]
    fn each_window_once_and_none_beyond_the_end() {
        let (_file, ahead) = made(10 * WINDOW + 5);
        ahead.request(WINDOW - 1, 2);
        assert_eq!((asked(&ahead), ahead.read.load(Relaxed)), (2, 2 * WINDOW));
        ahead.request(0, 2 * WINDOW);
        assert_eq!(ahead.read.load(Relaxed), 2 * WINDOW);
        ahead.request(10 * WINDOW, u64::MAX);
        ahead.request(u64::MAX, u64::MAX);
        ahead.want_only(3 * WINDOW, 1);
        assert_eq!(asked(&ahead), 3);
    }

    #[test]
    fn a_scattered_file_is_read_whole() {
        let (_file, ahead) = made(4096 * WINDOW);
        for page in 0..1024 {
            ahead.request(page * 3 * WINDOW, 4096);
        }
        let end = Instant::now() + Duration::from_secs(60);
        while asked(&ahead) < 4096 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(asked(&ahead), 4096);
    }

    #[test]
    fn one_that_is_read_in_order_is_not() {
        let (_file, ahead) = made(4096 * WINDOW);
        (0..1024 * 64).for_each(|page| ahead.request(page * 4096, 4096));
        assert!(!ahead.scattered.load(Relaxed));
        assert_eq!(asked(&ahead), 1024);
    }
}
