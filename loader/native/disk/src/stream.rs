//! Writes a file sequentially in a thread of its own.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::Fill;
use crate::direct::{self, ALIGNMENT, Buffer};

/// Best buffer size in bytes: three buffers fit in the CPU's cache, from which the device reads them. With buffers of
/// 16 MiB, a copy of 2 GiB took a third longer.
pub const BUFFER: usize = 1 << 20;
/// Number of buffers: one is being filled, one is being written, one waits for the slower side.
const BUFFERS: usize = 3;

/// The writing end. It is unusable after an error.
#[derive(Debug)]
pub struct DirectWriter {
    buffer: Buffer,
    /// Offset of the buffer in the file.
    offset: u64,
    full: Option<SyncSender<(u64, Buffer)>>,
    empty: Receiver<Buffer>,
    /// Number of buffers that may still be allocated. They are allocated when needed, because a small file needs only
    /// one.
    unallocated: usize,
    size: usize,
    /// Whether the writing thread syncs the file at the end.
    sync: Arc<AtomicBool>,
    writer: Option<JoinHandle<io::Result<DirectFile>>>,
}

/// A file that is being written and synced.
#[derive(Debug)]
pub struct Syncing(Option<JoinHandle<io::Result<DirectFile>>>);

impl Syncing {
    /// Waits until the file is synced.
    pub fn wait(self) -> io::Result<()> {
        self.0.map_or(Ok(()), |writer| joined(writer).map(drop))
    }
}

impl DirectWriter {
    /// Creates or empties `path`. `mode` is the mode of a new file. `size` is the size of each buffer in bytes, a
    /// multiple of 4096.
    pub fn create(path: &Path, mode: u32, size: usize) -> io::Result<Self> {
        Self::start(DirectFile::create(path, mode)?, 0, size)
    }

    /// Writes to an existing file from `offset` on, which must be a multiple of 4096.
    pub fn append(path: &Path, offset: u64, size: usize) -> io::Result<Self> {
        Self::start(DirectFile::existing(path)?, offset, size)
    }

    fn start(mut disk: DirectFile, offset: u64, size: usize) -> io::Result<Self> {
        let (full, filled) = sync_channel::<(u64, Buffer)>(BUFFERS);
        let (emptied, empty) = channel();
        let sync = Arc::new(AtomicBool::new(false));
        let must_sync = Arc::clone(&sync);
        let work = move || {
            for (offset, mut buffer) in filled {
                disk.write_at(&buffer, offset)?;
                buffer.clear();
                // Sending fails only if the writing end was dropped, which then needs no more buffers.
                let _ = emptied.send(buffer);
            }
            if must_sync.load(Relaxed) {
                disk.sync()?;
            }
            Ok(disk)
        };
        let writer = std::thread::Builder::new().name("disk".into()).spawn(work)?;
        let (buffer, unallocated) = (Buffer::new(size), BUFFERS - 1);
        let (full, writer) = (Some(full), Some(writer));
        Ok(Self { buffer, offset, full, empty, unallocated, size, sync, writer })
    }

    /// Returns an empty buffer; `None` if the writing thread has ended.
    fn next(&mut self) -> Option<Buffer> {
        if let Ok(buffer) = self.empty.try_recv() {
            return Some(buffer);
        }
        if self.unallocated == 0 {
            return self.empty.recv().ok();
        }
        self.unallocated -= 1;
        Some(Buffer::new(self.size))
    }

    fn hand_over(&mut self, full: Buffer) -> io::Result<()> {
        let offset = self.offset;
        self.offset += full.len() as u64;
        let sent = self.full.as_ref().map(|channel| channel.send((offset, full)));
        if matches!(sent, Some(Ok(()))) { Ok(()) } else { Err(self.failed()) }
    }

    /// Returns the error that ended the writing thread.
    fn failed(&mut self) -> io::Error {
        self.full = None;
        let abandoned = || io::Error::other("the file was abandoned");
        self.writer.take().and_then(|writer| joined(writer).err()).unwrap_or_else(abandoned)
    }

    /// Continues at `offset`. `offset` and the number of bytes written since the last call must be multiples of 4096.
    pub fn seek(&mut self, offset: u64) -> io::Result<()> {
        if !self.buffer.is_empty() {
            self.change_buffer()?;
        }
        self.offset = offset;
        Ok(())
    }

    fn change_buffer(&mut self) -> io::Result<()> {
        let Some(next) = self.next() else { return Err(self.failed()) };
        let full = std::mem::replace(&mut self.buffer, next);
        self.hand_over(full)
    }

    /// Ends the output. The remaining data is written and synced in the background.
    pub fn end(mut self) -> io::Result<Syncing> {
        self.sync.store(true, Relaxed);
        self.last()?;
        Ok(Syncing(self.writer.take()))
    }

    fn last(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            let last = std::mem::replace(&mut self.buffer, Buffer::new(0));
            self.hand_over(last)?;
        }
        self.full = None;
        Ok(())
    }

    /// Waits until all data is written, and returns the file, which is not synced.
    pub fn finish(mut self) -> io::Result<DirectFile> {
        self.last()?;
        match self.writer.take() {
            Some(writer) => joined(writer),
            None => Err(self.failed()),
        }
    }
}

impl Fill for DirectWriter {
    #[inline]
    fn room(&mut self) -> io::Result<&mut [u8]> {
        if self.buffer.room().is_empty() {
            self.change_buffer()?;
        }
        Ok(self.buffer.room())
    }

    fn filled(&mut self, count: usize) {
        self.buffer.fill(count);
    }
}

impl Drop for DirectWriter {
    /// Waits for the writing thread, so that nothing is written after the drop.
    fn drop(&mut self) {
        self.full = None;
        if let Some(writer) = self.writer.take() {
            let _ = joined(writer);
        }
    }
}

fn joined(writer: JoinHandle<io::Result<DirectFile>>) -> io::Result<DirectFile> {
    let panicked = |_| Err(io::Error::other("the thread that writes the file panicked"));
    writer.join().unwrap_or_else(panicked)
}

/// A file that is written past the page cache if the file system supports it.
pub struct DirectFile {
    file: File,
    direct: bool,
    /// The file is a pipe, which receives all data in the order of the calls, whatever their offsets.
    pipe: bool,
}

impl DirectFile {
    /// Creates or empties `path`. `mode` is the mode of a new file.
    pub fn create(path: &Path, mode: u32) -> io::Result<Self> {
        Self::open(path, mode, true)
    }

    /// Creates `path`, or opens an existing file, and truncates it if `empty` is set.
    pub fn open(path: &Path, mode: u32, empty: bool) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        Self::with(options.write(true).create(true).truncate(empty).mode(mode), path)
    }

    /// Opens an existing file.
    pub fn existing(path: &Path) -> io::Result<Self> {
        Self::with(OpenOptions::new().write(true), path)
    }

    fn with(options: &mut OpenOptions, path: &Path) -> io::Result<Self> {
        let (direct, file) = match direct::open(options, path)? {
            Some(file) => (true, file),
            None => (false, options.custom_flags(0).open(path)?),
        };
        let pipe = file.metadata()?.file_type().is_fifo();
        let mut output = Self { file, direct, pipe };
        if pipe && direct {
            output.through_cache()?; // On a pipe, O_DIRECT would make each write a packet.
        }
        Ok(output)
    }

    fn through_cache(&mut self) -> io::Result<()> {
        let flags = fcntl_getfl(&self.file)? - OFlags::DIRECT;
        fcntl_setfl(&self.file, flags)?;
        self.direct = false;
        Ok(())
    }

    /// Writes past the page cache if `bytes` are in a [`Buffer`] and `offset` is a multiple of 4096.
    pub fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        // At the end of the file, the last bytes may be less than a block.
        let (blocks, rest) = bytes.split_at(bytes.len() / ALIGNMENT * ALIGNMENT);
        let parts = [(blocks, offset), (rest, offset + blocks.len() as u64)];
        parts.iter().try_for_each(|(part, offset)| self.write_part(part, *offset))
    }

    fn write_part(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.pipe {
            return self.file.write_all(bytes);
        }
        match self.file.write_all_at(bytes, offset) {
            Err(error) if self.direct && direct::refused(&error) => {
                self.through_cache()?;
                self.file.write_all_at(bytes, offset)
            }
            result => result,
        }
    }

    /// Sets the length of the file; unwritten parts are holes.
    pub fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    /// Syncs the file; a pipe needs no sync.
    pub fn sync(&self) -> io::Result<()> {
        if self.pipe { Ok(()) } else { self.file.sync_all() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(length: usize, step: usize) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let bytes: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(length).collect();
        let mut stream = DirectWriter::create(&path, 0o600, 8192).unwrap();
        for piece in bytes.chunks(step) {
            stream.write(piece).unwrap();
        }
        stream.finish().unwrap().sync().unwrap();
        assert!(std::fs::read(&path).unwrap() == bytes, "{length} bytes in steps of {step}");
    }

    #[test]
    fn any_length_in_any_steps() {
        for length in [0, 1, 4095, 4096, 4097, 8192, 24_577, 100_000] {
            for step in [1, 1000, 4096, 50_000] {
                written(length, step);
            }
        }
    }

    #[test]
    fn unwritten_parts_are_holes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let mut disk = DirectFile::create(&path, 0o600).unwrap();
        disk.write_at(&Buffer::from(&[1; 12288][..]), 4096).unwrap();
        disk.write_at(&Buffer::from(&[2; 5000][..]), 1 << 20).unwrap();
        disk.set_len(1 << 21).unwrap();
        let content = std::fs::read(&path).unwrap();
        assert_eq!(content.len(), 1 << 21);
        let (one, two) = (4096..16384, 1 << 20..(1 << 20) + 5000);
        for (at, byte) in content.iter().enumerate() {
            let wanted = u8::from(one.contains(&at)) + 2 * u8::from(two.contains(&at));
            assert_eq!(*byte, wanted, "{at}");
        }
    }

    #[test]
    fn a_pipe_receives_late_writes_at_the_end() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&write));
        let mut stream = DirectWriter::create(Path::new(&path), 0o600, 4096).unwrap();
        drop(write);
        stream.write(&[1; 10_000]).unwrap();
        let mut file = stream.finish().unwrap();
        file.write_at(&Buffer::from(&[2; 4096][..]), 0).unwrap();
        file.sync().unwrap();
        drop(file);
        let mut content = Vec::new();
        io::Read::read_to_end(&mut File::from(read), &mut content).unwrap();
        assert!(content == [vec![1; 10_000], vec![2; 4096]].concat());
    }

    #[test]
    fn a_full_disk_is_reported() {
        let mut stream = DirectWriter::create(Path::new("/dev/full"), 0o600, 4096).unwrap();
        let filled = (0..100).try_for_each(|_| stream.write(&[1; 4096]));
        let error = filled.and_then(|()| stream.finish().map(drop)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
