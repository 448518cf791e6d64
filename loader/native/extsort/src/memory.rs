//! What a sorter may use: so much memory, a directory for the rest, and a flag that ends it early.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::scratch::TempFile;
use crate::{Error, Result};

#[derive(Debug)]
pub(crate) struct Resources {
    /// Bytes.
    pub memory: usize,
    pub scratch: TempFile,
    stop: Arc<AtomicBool>,
}

impl Resources {
    pub fn new(memory: usize, dir: &Path, stop: &Arc<AtomicBool>) -> Self {
        Self { memory, scratch: TempFile::new(dir), stop: Arc::clone(stop) }
    }

    /// To be asked about once a millisecond of work.
    pub fn check_cancelled(&self) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) { Err(Error::cancelled()) } else { Ok(()) }
    }

    /// Bytes to write at once, so that even a rotating disk spends its time writing.
    pub fn write_size(&self) -> usize {
        (self.memory / 16).clamp(4 << 10, 4 << 20)
    }

    /// Bytes to read at once from each of so many places, so that all buffers together fit.
    pub fn read_size(&self, places: usize) -> usize {
        (self.memory / 4 / places.max(1)).clamp(4 << 10, 1 << 20)
    }
}
