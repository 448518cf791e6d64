//! A file that is read in large pieces: what the page cache has is taken from there, the rest goes past it.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::io::retry_on_intr;

use crate::direct::{self, ALIGNMENT};
use crate::resident::Resident;

/// So nothing that others have in the cache has to give way, and nothing in it is read again.
#[derive(Debug)]
pub struct Source {
    file: File,
    direct: Option<File>,
    resident: Option<Resident>,
    refused: AtomicBool,
}

impl Source {
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let direct = direct::open(OpenOptions::new().read(true), path)?;
        Ok(Self::new(file, direct))
    }

    /// `direct`: the same file for direct transfers.
    pub fn new(file: File, direct: Option<File>) -> Self {
        let resident = direct.as_ref().and_then(Resident::of);
        Self { file, direct, resident, refused: AtomicBool::new(false) }
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// Fills `room` from `offset` on, less at the end of the file: how many bytes. Both are best aligned to 4096.
    pub fn read(&self, room: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = self.cached(room, offset)?;
        while done < room.len() {
            match self.disk(&mut room[done..], offset + done as u64)? {
                0 => break,
                count => done += count,
            }
        }
        Ok(done)
    }

    /// What the cache has from the beginning of the room on.
    fn cached(&self, room: &mut [u8], offset: u64) -> io::Result<usize> {
        let there = self.resident.as_ref().map_or(0, |known| known.bytes(offset, room.len()));
        if there == 0 { Ok(0) } else { read_at(&self.file, &mut room[..there], offset) }
    }

    /// Past the cache where that can be.
    fn disk(&self, room: &mut [u8], offset: u64) -> io::Result<usize> {
        let whole = room.len() / ALIGNMENT * ALIGNMENT;
        let aligned = offset % ALIGNMENT as u64 == 0 && whole > 0;
        let usable = aligned && !self.refused.load(Relaxed);
        if let Some(direct) = self.direct.as_ref().filter(|_| usable) {
            match read_at(direct, &mut room[..whole], offset) {
                Err(error) if direct::refused(&error) => self.refused.store(true, Relaxed),
                result => return result,
            }
        }
        read_at(&self.file, room, offset)
    }
}

fn read_at(file: &File, room: &mut [u8], offset: u64) -> io::Result<usize> {
    Ok(retry_on_intr(|| rustix::io::pread(file, &mut *room, offset))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Buffer;
    use rustix::fs::{Advice, fadvise};

    #[test]
    fn any_part_of_a_file_in_the_cache_and_past_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let bytes: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(300_001).collect();
        std::fs::write(&path, &bytes).unwrap();
        let source = Source::open(&path).unwrap();
        for round in 0..200 {
            if round % 3 == 0 {
                source.file().sync_all().unwrap();
                fadvise(source.file(), 0, None, Advice::DontNeed).unwrap();
            }
            let block = fastrand::usize(..73) * ALIGNMENT;
            let start = if round % 2 == 0 { block } else { fastrand::usize(..300_000) };
            let mut buffer = Buffer::new(fastrand::usize(1..100_000));
            let count = source.read(buffer.room(), start as u64).unwrap();
            assert_eq!(count, buffer.room().len().min(bytes.len() - start));
            buffer.fill(count);
            assert!(buffer[..] == bytes[start..start + count], "{round}: {count} from {start}");
        }
    }
}
