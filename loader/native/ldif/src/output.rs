//! Writes a file and syncs it at the end: with zstd if its name ends in .zst, otherwise without the page cache.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use common::InFile;
use disk::{DirectWriter, Fill};
use xxhash_rust::xxh3::Xxh3;

use crate::input::extension;
use crate::{Code, Error, Result};

const LEVEL: i32 = 3;
const BUFFER: usize = 256 * 1024;

/// Mode of new files: only the owner can read them, because entries contain password hashes.
const MODE: u32 = 0o600;

pub struct Output {
    path: PathBuf,
    sink: Sink,
}

enum Sink {
    Plain(Checksummed<DirectWriter>),
    Zstd(Box<zstd::Encoder<'static, Checksummed<BufWriter<File>>>>),
}

/// Passes data on, and computes its checksum if one is requested.
struct Checksummed<W> {
    inner: W,
    sum: Option<Box<Xxh3>>,
}

impl Output {
    /// Creates or truncates `path`. `threads` is the number of compressing threads in addition to the caller.
    pub fn create(path: &Path, threads: u32) -> Result<Self> {
        Self::with_sum(path, threads, None)
    }

    /// Does the same as [`Self::create`]; [`Self::finish`] then returns the checksum of the file.
    pub fn create_summed(path: &Path, threads: u32) -> Result<Self> {
        Self::with_sum(path, threads, Some(Box::default()))
    }

    fn with_sum(path: &Path, threads: u32, sum: Option<Box<Xxh3>>) -> Result<Self> {
        let sink = located(Sink::create(path, threads, sum), path)?;
        Ok(Self { path: path.to_path_buf(), sink })
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        located(self.sink.write_all(bytes), &self.path)
    }

    /// Ends the file and waits until it is on the disk. Returns its XXH3 checksum (128 bits, hexadecimal) if it was
    /// created by [`Self::create_summed`], otherwise "".
    pub fn finish(self) -> Result<String> {
        self.end()?.wait()
    }

    /// Ends the file; [`Closing::wait`] waits until it is on the disk.
    pub fn end(self) -> Result<Closing> {
        let Self { path, sink } = self;
        let (rest, sum) = located(sink.end(), &path)?;
        Ok(Closing { path, rest, sum })
    }
}

/// A finished file that may not yet be on the disk.
#[derive(Debug)]
pub struct Closing {
    path: PathBuf,
    rest: ClosingFile,
    sum: String,
}

#[derive(Debug)]
enum ClosingFile {
    Stream(disk::Syncing),
    File(File),
}

impl Closing {
    /// Waits until the file is on the disk, and returns the same as [`Output::finish`].
    pub fn wait(self) -> Result<String> {
        let synced = match self.rest {
            ClosingFile::Stream(ending) => ending.wait(),
            ClosingFile::File(file) => file.sync_all(),
        };
        located(synced, &self.path)?;
        Ok(self.sum)
    }
}

impl Sink {
    fn create(path: &Path, threads: u32, sum: Option<Box<Xxh3>>) -> io::Result<Self> {
        if extension(path) != "zst" {
            let inner = DirectWriter::create(path, MODE, disk::BUFFER)?;
            return Ok(Self::Plain(Checksummed { inner, sum }));
        }
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(MODE).open(path)?;
        let inner = BufWriter::with_capacity(BUFFER, file);
        let mut encoder = zstd::Encoder::new(Checksummed { inner, sum }, LEVEL)?;
        encoder.include_checksum(true)?;
        encoder.multithread(threads)?;
        Ok(Self::Zstd(Box::new(encoder)))
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(stream) => {
                stream.count(bytes);
                stream.inner.write(bytes)
            }
            Self::Zstd(encoder) => encoder.write_all(bytes),
        }
    }

    fn end(self) -> io::Result<(ClosingFile, String)> {
        match self {
            Self::Plain(Checksummed { inner, sum }) => Ok((ClosingFile::Stream(inner.end()?), text(sum))),
            Self::Zstd(encoder) => {
                let Checksummed { inner, sum } = encoder.finish()?;
                let file = inner.into_inner()?;
                Ok((ClosingFile::File(file), text(sum)))
            }
        }
    }
}

impl<W> Checksummed<W> {
    fn count(&mut self, bytes: &[u8]) {
        if let Some(sum) = &mut self.sum {
            sum.update(bytes);
        }
    }
}

impl<W: Write> Write for Checksummed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.count(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn text(sum: Option<Box<Xxh3>>) -> String {
    sum.map(|sum| format!("{:032x}", sum.digest128())).unwrap_or_default()
}

impl std::fmt::Debug for Output {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Output").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Reports a failed write as [`Code::Io`], because the written stream itself is not damaged.
fn located<T>(done: io::Result<T>, path: &Path) -> Result<T> {
    done.in_file(Some(path)).map_err(|error| match error.code {
        Code::Corrupt | Code::Truncated => Error { code: Code::Io, ..error },
        _ => error,
    })
}
