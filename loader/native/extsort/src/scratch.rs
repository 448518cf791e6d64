//! The resources of a sorter: limited memory, a temporary file beyond it, and a stop flag.

use std::fs::{File, Permissions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use common::{Code, Error, Result};

#[derive(Debug)]
pub struct Resources {
    /// Memory limit in bytes.
    pub memory: usize,
    pub scratch: TempFile,
    stop: Arc<AtomicBool>,
}

impl Resources {
    pub fn new(memory: usize, dir: &Path, stop: &Arc<AtomicBool>) -> Self {
        Self { memory, scratch: TempFile::new(dir), stop: Arc::clone(stop) }
    }

    /// Fails if the stop flag is set. Call it about once per millisecond of work.
    pub fn check_cancelled(&self) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) { Err(Error::cancelled()) } else { Ok(()) }
    }

    /// Returns the number of bytes per write, which is large enough for rotating disks.
    pub fn write_size(&self) -> usize {
        (self.memory / 16).clamp(4 << 10, 4 << 20)
    }

    /// Returns the number of bytes per read from each of `runs` runs, so that all buffers fit in memory.
    pub fn read_size(&self, runs: usize) -> usize {
        (self.memory / 4 / runs.max(1)).clamp(4 << 10, 1 << 20)
    }
}

/// A temporary file without a name, created at the first write.
#[derive(Debug)]
pub struct TempFile {
    dir: PathBuf,
    file: OnceLock<File>,
    end: AtomicU64,
}

impl TempFile {
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_path_buf(), file: OnceLock::new(), end: AtomicU64::new(0) }
    }

    /// Appends `bytes` and returns their offset. Several threads may call it at once.
    pub fn append(&self, bytes: &[u8]) -> Result<u64> {
        let file = self.file()?;
        let offset = self.end.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.checked(file.write_all_at(bytes, offset))?;
        Ok(offset)
    }

    /// Fills `bytes` with the contents of the file from `offset` on.
    pub fn read(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        self.checked(self.file()?.read_exact_at(bytes, offset))
    }

    /// Returns the error for a file whose contents have changed since they were written.
    pub fn damaged(&self) -> Error {
        self.failed(io::Error::new(io::ErrorKind::InvalidData, "its contents have changed"))
    }

    fn checked<T>(&self, result: io::Result<T>) -> Result<T> {
        result.map_err(|error| self.failed(error))
    }

    /// Returns the error for a failed access. An error without an errno means that the contents have changed.
    fn failed(&self, error: io::Error) -> Error {
        let error = Error::from(error);
        let code = if error.errno.is_some() { error.code } else { Code::Damaged };
        let message = format!("temporary file: {}", error.message);
        Error { code, message, ..error }.in_file(Some(&self.dir))
    }

    fn file(&self) -> Result<&File> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        // If two threads create a file at once, one of the files is closed unused.
        let file = self.checked(create(&self.dir))?;
        Ok(self.file.get_or_init(|| file))
    }
}

/// Creates the file with a mode that ignores the umask, because other users could open the file under `/proc`.
fn create(dir: &Path) -> io::Result<File> {
    let file = tempfile::tempfile_in(dir)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Reads a range of a temporary file from its start to its end.
#[derive(Debug)]
pub struct Window {
    /// The range that has not been read from the file yet.
    unread: Range<u64>,
    buffer: Vec<u8>,
    /// Number of consumed bytes at the start of `buffer`.
    start: usize,
    read_size: usize,
}

impl Window {
    pub fn new(range: Range<u64>, read_size: usize) -> Self {
        Self { unread: range, buffer: Vec::new(), start: 0, read_size }
    }

    /// Returns at least the next `least` bytes, or all remaining bytes if these are fewer.
    #[inline]
    pub fn peek(&mut self, least: usize, scratch: &TempFile) -> Result<&[u8]> {
        if self.buffer.len() - self.start < least {
            self.fill(least, scratch)?;
        }
        Ok(self.buffered())
    }

    /// Returns the bytes read by [`Self::peek`] that have not been passed yet.
    #[inline]
    pub fn buffered(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    #[inline]
    pub fn pass(&mut self, count: usize) {
        self.start += count;
    }

    fn fill(&mut self, least: usize, scratch: &TempFile) -> Result<()> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let kept = self.buffer.len();
        let unread = usize::try_from(self.unread.end - self.unread.start).unwrap_or(usize::MAX);
        let more = (least - kept).max(self.read_size).min(unread);
        self.buffer.resize(kept + more, 0);
        scratch.read(&mut self.buffer[kept..], self.unread.start)?;
        self.unread.start += more as u64;
        Ok(())
    }
}

/// Appends one run in large writes. No other thread may append meanwhile.
pub struct Appender<'a> {
    scratch: &'a TempFile,
    buffer: Vec<u8>,
    write_size: usize,
    run: Range<u64>,
}

impl<'a> Appender<'a> {
    pub fn new(scratch: &'a TempFile, write_size: usize) -> Self {
        Self { scratch, buffer: Vec::with_capacity(write_size), write_size, run: 0..0 }
    }

    #[inline]
    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() < self.write_size { Ok(()) } else { self.write() }
    }

    fn write(&mut self) -> Result<()> {
        let offset = self.scratch.append(&self.buffer)?;
        if self.run.is_empty() {
            self.run = offset..offset;
        }
        self.run.end += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Returns the range of the run in the file.
    pub fn finish(mut self) -> Result<Range<u64>> {
        self.write()?;
        Ok(self.run)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn the_file_has_no_name_and_only_its_owner_may_open_it() {
        let scratch = TempFile::new(&std::env::temp_dir());
        scratch.append(b"x").unwrap();
        let found = scratch.file().unwrap().metadata().unwrap();
        assert_eq!((found.nlink(), found.mode() & 0o777), (0, 0o600));
    }

    #[test]
    fn a_full_disk_is_reported_with_the_directory() {
        let scratch = TempFile::new(Path::new("/var/tmp"));
        scratch.file.set(OpenOptions::new().write(true).open("/dev/full").unwrap()).unwrap();
        let error = scratch.append(b"x").unwrap_err();
        let expected = "/var/tmp: temporary file: No space left on device (os error 28)";
        assert_eq!((error.code, error.errno), (Code::NoSpace, Some(28)));
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn refused_access_is_reported_and_only_changed_contents_are_damage() {
        let scratch = TempFile::new(Path::new("/var/tmp"));
        for errno in [5, 13] {
            let error = scratch.failed(io::Error::from_raw_os_error(errno));
            assert_eq!((error.code, error.errno), (Code::Io, Some(errno)));
        }
        assert_eq!(scratch.damaged().code, Code::Damaged);
        assert_eq!(scratch.failed(io::ErrorKind::UnexpectedEof.into()).code, Code::Damaged);
    }
}
