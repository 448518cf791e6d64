//! Computes the size and checksum of a file while it is read, so that it need not be read again.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

use common::{Counters, WholeFile};

/// Reports the file to `counters` at its end; a file that is not read to its end is not reported.
pub(crate) struct ChecksummedReader<'a> {
    file: File,
    path: PathBuf,
    bytes: u64,
    sum: Option<Box<Xxh3>>,
    counters: &'a Counters,
}

impl<'a> ChecksummedReader<'a> {
    pub(crate) fn new(file: File, path: &Path, counters: &'a Counters) -> Self {
        Self { file, path: path.to_path_buf(), bytes: 0, sum: Some(Box::default()), counters }
    }

    fn ended(&mut self) {
        if let Some(sum) = self.sum.take() {
            let (path, bytes, checksum) = (self.path.clone(), self.bytes, sum.digest128());
            self.counters.read_whole(WholeFile { path, bytes, checksum });
        }
    }
}

impl Read for ChecksummedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        if count == 0 && !buffer.is_empty() {
            self.ended();
        } else if let Some(sum) = &mut self.sum {
            sum.update(&buffer[..count]);
            self.bytes += count as u64;
        }
        Ok(count)
    }
}
