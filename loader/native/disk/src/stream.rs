//! A file written from its beginning to its end, by a thread of its own.

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

/// Bytes of a buffer that serve best: three of them stay in the processor's cache, and the device
/// takes them from there. With 16 MiB a copy of 2 GiB took a third longer.
pub const BUFFER: usize = 1 << 20;
/// Buffers under way: one is filled, one written, one waits for whichever is slower.
const BUFFERS: usize = 3;

/// The end that is filled. After an error it is of no use.
#[derive(Debug)]
pub struct DirectWriter {
    buffer: Buffer,
    full: Option<SyncSender<Buffer>>,
    empty: Receiver<Buffer>,
    /// Buffers that may still be made; a small file needs no more than one.
    unmade: usize,
    size: usize,
    /// The writer is to sync the file at its end.
    sync: Arc<AtomicBool>,
    writer: Option<JoinHandle<io::Result<DirectFile>>>,
}

/// A file that is on its way to the disk.
#[derive(Debug)]
pub struct Syncing(Option<JoinHandle<io::Result<DirectFile>>>);

impl Syncing {
    /// Until the disk has it.
    pub fn wait(self) -> io::Result<()> {
        self.0.map_or(Ok(()), |writer| joined(writer).map(drop))
    }
}

impl DirectWriter {
    /// Creates or empties `path`. `mode`: of a new file. `size`: bytes of one of the three buffers, a multiple of
    /// 4096.
    pub fn create(path: &Path, mode: u32, size: usize) -> io::Result<Self> {
        Self::start(DirectFile::create(path, mode)?, size)
    }

    /// Writes to a file that is there, from `offset` on, a multiple of 4096.
    pub fn past(path: &Path, offset: u64, size: usize) -> io::Result<Self> {
        let file = DirectFile::existing(path)?;
        Self::start(DirectFile { end: offset, ..file }, size)
    }

    fn start(mut disk: DirectFile, size: usize) -> io::Result<Self> {
        let (full, filled) = sync_channel::<Buffer>(BUFFERS);
        let (emptied, empty) = channel();
        let sync = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&sync);
        let work = move || {
            for mut buffer in filled {
                disk.append(&buffer)?;
                buffer.clear();
                // Nobody takes the last ones back.
                let _ = emptied.send(buffer);
            }
            if asked.load(Relaxed) {
                disk.sync()?;
            }
            Ok(disk)
        };
        let writer = std::thread::Builder::new().name("disk".into()).spawn(work)?;
        let (buffer, unmade) = (Buffer::new(size), BUFFERS - 1);
        Ok(Self { buffer, full: Some(full), empty, unmade, size, sync, writer: Some(writer) })
    }

    /// An empty buffer; `None` when the writer is gone.
    fn next(&mut self) -> Option<Buffer> {
        if let Ok(buffer) = self.empty.try_recv() {
            return Some(buffer);
        }
        if self.unmade == 0 {
            return self.empty.recv().ok();
        }
        self.unmade -= 1;
        Some(Buffer::new(self.size))
    }

    fn hand_over(&mut self, full: Buffer) -> io::Result<()> {
        let sent = self.full.as_ref().map(|channel| channel.send(full));
        if matches!(sent, Some(Ok(()))) { Ok(()) } else { Err(self.failed()) }
    }

    /// Why the writer is gone.
    fn failed(&mut self) -> io::Error {
        self.full = None;
        let gone = || io::Error::other("the file was given up");
        self.writer.take().and_then(|writer| joined(writer).err()).unwrap_or_else(gone)
    }

    /// No more comes: what is left is written and synced by and by.
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

    /// Hands out the file once all is written. It is not synced.
    pub fn finish(mut self) -> io::Result<DirectFile> {
        self.last()?;
        match self.writer.take() {
            Some(writer) => joined(writer),
            None => Err(self.failed()),
        }
    }
}

impl Fill for DirectWriter {
    /// May wait for the disk.
    #[inline]
    fn room(&mut self) -> io::Result<&mut [u8]> {
        if self.buffer.room().is_empty() {
            let Some(next) = self.next() else { return Err(self.failed()) };
            let full = std::mem::replace(&mut self.buffer, next);
            self.hand_over(full)?;
        }
        Ok(self.buffer.room())
    }

    fn filled(&mut self, count: usize) {
        self.buffer.fill(count);
    }
}

impl Drop for DirectWriter {
    /// Nothing is written to the file after its owner let go of it.
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

/// A file that is written past the page cache as far as the file system allows.
#[derive(Debug)]
pub struct DirectFile {
    file: File,
    end: u64,
    direct: bool,
    /// A pipe takes all in the order in which it is written, whatever its offset.
    pipe: bool,
}

impl DirectFile {
    /// Creates or empties `path`. `mode`: of a new file.
    pub fn create(path: &Path, mode: u32) -> io::Result<Self> {
        Self::open(path, mode, true)
    }

    /// Creates `path`, or opens what is there.
    pub fn open(path: &Path, mode: u32, empty: bool) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        Self::with(options.write(true).create(true).truncate(empty).mode(mode), path)
    }

    /// Opens what is there.
    pub fn existing(path: &Path) -> io::Result<Self> {
        Self::with(OpenOptions::new().write(true), path)
    }

    fn with(options: &mut OpenOptions, path: &Path) -> io::Result<Self> {
        let direct = direct::open(options, path)?;
        let (direct, file) = match direct {
            Some(file) => (true, file),
            None => (false, options.custom_flags(0).open(path)?),
        };
        let pipe = file.metadata()?.file_type().is_fifo();
        let mut output = Self { file, end: 0, direct, pipe };
        if pipe && direct {
            output.through_cache()?; // Else each write would be a packet.
        }
        Ok(output)
    }

    fn through_cache(&mut self) -> io::Result<()> {
        let flags = fcntl_getfl(&self.file)? - OFlags::DIRECT;
        fcntl_setfl(&self.file, flags)?;
        self.direct = false;
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_at(bytes, self.end)?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// `bytes` in a [`Buffer`] go past the cache.
    pub fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        // What is left over at the very end is no whole block.
        let (blocks, rest) = bytes.split_at(bytes.len() / ALIGNMENT * ALIGNMENT);
        let parts = [(blocks, offset), (rest, offset + blocks.len() as u64)];
        parts.iter().try_for_each(|(part, place)| self.write_part(part, *place))
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

    /// The file is that long, with a hole where nothing was written.
    pub fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    /// Waits until the disk has all; what went into a pipe is its reader's.
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
    fn what_is_left_out_is_a_hole() {
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
    fn a_pipe_gets_what_comes_late_at_its_end() {
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
    fn a_full_disk_is_told() {
        let mut stream = DirectWriter::create(Path::new("/dev/full"), 0o600, 4096).unwrap();
        let filled = (0..100).try_for_each(|_| stream.write(&[1; 4096]));
        let error = filled.and_then(|()| stream.finish().map(drop)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
