//! Memory and descriptors for direct transfers.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Deref;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Direct transfers want memory, offset and size in multiples of the device's block.
pub(crate) const ALIGNMENT: usize = 4096;

/// Aligned memory, which is filled from its start.
#[derive(Debug)]
pub struct Buffer {
    memory: Vec<u8>,
    start: usize,
    used: usize,
}

impl Buffer {
    pub fn new(size: usize) -> Self {
        let memory = vec![0; size + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        Self { memory, start, used: 0 }
    }

    /// What is not filled yet.
    pub fn room(&mut self) -> &mut [u8] {
        let size = self.memory.len() - ALIGNMENT;
        &mut self.memory[self.start + self.used..self.start + size]
    }

    /// Counts that much of the room as filled.
    pub fn fill(&mut self, count: usize) {
        self.used += count;
    }

    pub fn clear(&mut self) {
        self.used = 0;
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.used]
    }
}

/// Opens a file for direct transfers, `None` where there are none.
pub fn open(options: &mut OpenOptions, path: &Path) -> io::Result<Option<File>> {
    let direct = i32::try_from(OFlags::DIRECT.bits()).unwrap_or(0);
    match options.custom_flags(direct).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if refused(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether direct transfers, and not the file, are what the system refuses. Some file systems say
/// so only at the first transfer, or want larger blocks than ours.
pub fn refused(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error())
}
