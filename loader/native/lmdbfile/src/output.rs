//! The file, written by a thread of its own past the page cache.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::direct::{self, Buffer};
use crate::{Error, ErrorKind, Result};

/// Bytes of one buffer.
const BUFFER: usize = 4 << 20;
/// Buffers under way: one is filled, one written, one waits for whichever is slower.
const BUFFERS: usize = 3;
/// The end that is written to.
#[derive(Debug)]
pub(crate) struct Output {
    buffer: Buffer,
    full: Option<SyncSender<Buffer>>,
    empty: Receiver<Buffer>,
    writer: Option<JoinHandle<Result<Disk>>>,
    failure: Option<Error>,
}

impl Output {
    pub fn create(path: &Path) -> Result<Self> {
        let mut disk = Disk::create(path).map_err(|error| Error::from(error).of_file(path))?;
        let (full, filled) = sync_channel::<Buffer>(BUFFERS);
        let (emptied, empty) = channel();
        for _ in 1..BUFFERS {
            let _ = emptied.send(Buffer::new(BUFFER));
        }
        let path = path.to_path_buf();
        let work = move || {
            for mut buffer in filled {
                disk.append(&buffer).map_err(|error| Error::from(error).of_file(&path))?;
                buffer.clear();
                // Nobody takes the last ones back.
                let _ = emptied.send(buffer);
            }
            Ok(disk)
        };
        let writer = std::thread::Builder::new().name("lmdbfile".into()).spawn(work)?;
        let buffer = Buffer::new(BUFFER);
        Ok(Self { buffer, full: Some(full), empty, writer: Some(writer), failure: None })
    }

    /// Takes `bytes` in; may wait for the disk.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let room = self.room()?;
            let count = room.len().min(bytes.len());
            room[..count].copy_from_slice(&bytes[..count]);
            self.buffer.fill(count);
            bytes = &bytes[count..];
        }
        Ok(())
    }

    pub fn zeros(&mut self, mut count: usize) -> Result<()> {
        while count > 0 {
            let room = self.room()?;
            let some = room.len().min(count);
            room[..some].fill(0);
            self.buffer.fill(some);
            count -= some;
        }
        Ok(())
    }

    /// Room of at least one byte.
    #[inline]
    fn room(&mut self) -> Result<&mut [u8]> {
        if self.buffer.room().is_empty() {
            self.send()?;
        }
        Ok(self.buffer.room())
    }

    fn send(&mut self) -> Result<()> {
        let Ok(next) = self.empty.recv() else { return Err(self.failed()) };
        let full = std::mem::replace(&mut self.buffer, next);
        self.hand_over(full)
    }

    fn hand_over(&mut self, full: Buffer) -> Result<()> {
        let sent = self.full.as_ref().map(|channel| channel.send(full));
        if matches!(sent, Some(Ok(()))) { Ok(()) } else { Err(self.failed()) }
    }

    /// Why the writer is gone; the same each time it is asked.
    fn failed(&mut self) -> Error {
        self.full = None;
        if let Some(Err(error)) = self.writer.take().map(joined) {
            self.failure = Some(error);
        }
        let gone = || Error::new(ErrorKind::Misuse, "the file was given up");
        self.failure.clone().unwrap_or_else(gone)
    }

    /// Writes what is left and the pages that come late, and waits until the disk has all.
    pub fn finish(mut self, late: &[(u64, Vec<u8>)]) -> Result<()> {
        if !self.buffer.is_empty() {
            let last = std::mem::replace(&mut self.buffer, Buffer::new(0));
            self.hand_over(last)?;
        }
        self.full = None;
        let Some(writer) = self.writer.take() else { return Err(self.failed()) };
        let mut disk = joined(writer)?;
        for (offset, page) in late {
            let mut buffer = Buffer::new(page.len());
            buffer.room().copy_from_slice(page);
            buffer.fill(page.len());
            disk.write(&buffer, *offset)?;
        }
        Ok(disk.file.sync_all()?)
    }
}

impl Drop for Output {
    /// Nothing is written to the file after its owner let go of it.
    fn drop(&mut self) {
        self.full = None;
        if let Some(writer) = self.writer.take() {
            let _ = joined(writer);
        }
    }
}

fn joined(writer: JoinHandle<Result<Disk>>) -> Result<Disk> {
    let panicked = |_| Err(Error::new(ErrorKind::Io, "the thread that writes the file panicked"));
    writer.join().unwrap_or_else(panicked)
}

#[derive(Debug)]
struct Disk {
    file: File,
    end: u64,
    direct: bool,
}

impl Disk {
    fn create(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let direct = direct::open(&mut options, path)?;
        let (direct, file) = match direct {
            Some(file) => (true, file),
            None => (false, options.custom_flags(0).open(path)?),
        };
        Ok(Self { file, end: 0, direct })
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write(bytes, self.end)?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.file.write_all_at(bytes, offset) {
            Err(error) if self.direct && direct::refused(&error) => {
                let flags = fcntl_getfl(&self.file)? - OFlags::DIRECT;
                fcntl_setfl(&self.file, flags)?;
                self.direct = false;
                self.file.write_all_at(bytes, offset)
            }
            result => result,
        }
    }
}
