//! Parts of a file read into the page cache before they are asked for.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rustix::fs::{Advice, fadvise};

use crate::memory;

/// Bytes that are read together where all of the file has room in memory. A device takes as long for
/// 16 KiB as for 4, and from 128 KiB on is as fast as it can be.
const WINDOW: u64 = 256 << 10;
/// Bytes of a file's blocks, as stat(2) counts them.
const BLOCK: u64 = 512;

/// Bytes of windows after which it shows whether a file is scattered.
const SAMPLE: u64 = 64 << 20;
/// How often whoever sweeps looks whether that is of use.
const LOOK: Duration = Duration::from_millis(2);

/// What is wanted soon of a file, by whoever reads it in an order of their own.
///
/// Where the file has room in memory it is read in windows, each once, whatever of them is wanted: in
/// the end all is. Where it has not, what lies around would be gone before anybody came for it, and no more is read than
/// was said.
#[derive(Debug)]
pub struct Ahead {
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

impl Ahead {
    pub fn new(file: &File, length: u64) -> io::Result<Self> {
        let status = file.metadata()?;
        let length = length.min(status.len());
        // The rest is for what goes on beside.
        let fits = length.min(status.blocks() * BLOCK) <= memory::available() / 4 * 3;
        let words = usize::try_from(length.div_ceil(WINDOW).div_ceil(64)).unwrap_or(0);
        let asked = fits.then(|| (0..words).map(|_| AtomicU64::new(0)).collect());
        let (scattered, wanted, read) = Default::default();
        Ok(Self { file: file.try_clone()?, length, asked, scattered, wanted, read })
    }

    /// So many bytes from `start` on will be read.
    pub fn want(&self, start: u64, length: u64) {
        let end = start.saturating_add(length).min(self.length);
        let Some(asked) = &self.asked else { return self.advise(start, end) };
        self.wanted.fetch_add(end.saturating_sub(start), Relaxed);
        for window in start / WINDOW..end.div_ceil(WINDOW) {
            if is_first(asked, window) {
                self.advise(window * WINDOW, (window + 1) * WINDOW);
                self.look(self.read.fetch_add(WINDOW, Relaxed));
            }
        }
    }

    /// The file is scattered when windows are read for the sake of little in each.
    fn look(&self, read: u64) {
        if read > SAMPLE && self.wanted.load(Relaxed) < read / 16 {
            self.scattered.store(true, Relaxed);
        }
    }

    /// The same of what stands among bytes that are read otherwise, unless the file is scattered.
    pub fn want_only(&self, start: u64, length: u64) {
        if self.scattered.load(Relaxed) {
            self.want(start, length);
        } else {
            self.advise(start, start.saturating_add(length));
        }
    }

    /// As soon as the file is scattered, has all be read that was not wanted yet, from its beginning on; as long as it
    /// is to `go_on`.
    pub fn sweep(&self, go_on: impl Fn() -> bool) {
        let Some(asked) = &self.asked else { return };
        while !self.scattered.load(Relaxed) {
            if !go_on() {
                return;
            }
            std::thread::sleep(LOOK);
        }
        let windows = (0..self.length.div_ceil(WINDOW)).filter(|&window| is_first(asked, window));
        for window in windows.take_while(|_| go_on()) {
            self.advise(window * WINDOW, (window + 1) * WINDOW);
        }
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
