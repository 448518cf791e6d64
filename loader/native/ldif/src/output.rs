//! A file being written: plain, or zstd when its name ends so; durable once finished.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::input::extension;
use crate::{Code, Error, Result};

const LEVEL: i32 = 3;
const BUFFER: usize = 256 * 1024;

/// Readable by its owner only: entries carry password hashes.
const MODE: u32 = 0o600;

pub struct Output {
    path: PathBuf,
    sink: Sink,
}

enum Sink {
    Plain(BufWriter<File>),
    Zstd(Box<zstd::Encoder<'static, BufWriter<File>>>),
}

impl Output {
    /// Creates or empties `path`. With `threads` above 0, that many compress beside the caller.
    pub fn create(path: &Path, threads: u32) -> Result<Self> {
        let sink = Sink::create(path, threads).map_err(|error| locate(error, path))?;
        Ok(Self { path: path.to_path_buf(), sink })
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.sink.write_all(bytes).map_err(|error| locate(error, &self.path))
    }

    /// Ends the file and waits until it is on the disk.
    pub fn finish(self) -> Result<()> {
        self.sink.finish().map_err(|error| locate(error, &self.path))
    }
}

impl Sink {
    fn create(path: &Path, threads: u32) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(MODE).open(path)?;
        let file = BufWriter::with_capacity(BUFFER, file);
        if extension(path) != "zst" {
            return Ok(Self::Plain(file));
        }
        let mut encoder = zstd::Encoder::new(file, LEVEL)?;
        encoder.include_checksum(true)?;
        encoder.multithread(threads)?;
        Ok(Self::Zstd(Box::new(encoder)))
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(file) => file.write_all(bytes),
            Self::Zstd(encoder) => encoder.write_all(bytes),
        }
    }

    fn finish(self) -> io::Result<()> {
        let file = match self {
            Self::Plain(file) => file,
            Self::Zstd(encoder) => encoder.finish()?,
        };
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }
}

impl std::fmt::Debug for Output {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Output").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A failed write to our own output is the system's fault, never a damaged stream.
fn locate(error: io::Error, path: &Path) -> Error {
    let mut error = Error::from(error).in_file(Some(path));
    if error.code == Code::Corrupt || error.code == Code::Truncated {
        error.code = Code::Io;
    }
    error
}
