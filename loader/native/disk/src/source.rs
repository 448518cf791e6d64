//! Reads a file in large pieces: cached parts from the page cache, other parts past it.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::path::Path;

use crate::direct::{ALIGNMENT, Direct};
use crate::resident::PageCacheMap;

/// A reader that evicts nothing from the page cache, and reads no cached data from the disk.
#[derive(Debug)]
pub struct Source {
    file: Direct,
    resident: Option<PageCacheMap>,
}

impl Source {
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self::new(Direct::new(File::open(path)?, path)?))
    }

    pub fn new(file: Direct) -> Self {
        let resident = file.past_cache.as_ref().and_then(PageCacheMap::of);
        Self { file, resident }
    }

    pub const fn file(&self) -> &File {
        &self.file.file
    }

    /// Fills `room` from `offset` and returns the number of bytes read, which is less than requested only at the end of
    /// the file. Fast if `room`, its size and `offset` are multiples of 4096.
    pub fn read(&self, room: &mut [u8], offset: u64) -> io::Result<usize> {
        let cached = self.resident.as_ref().map_or(0, |map| map.bytes(offset, room.len()));
        let mut done = if cached > 0 { self.cached(&mut room[..cached], offset)? } else { 0 };
        while done < room.len() {
            match self.disk(&mut room[done..], offset + done as u64)? {
                0 => break,
                count => done += count,
            }
        }
        Ok(done)
    }

    /// Fills buffers in order and returns the number of bytes read. Reads through the page cache if all bytes are
    /// cached or `into_cache` is set. Buffer sizes and `offset` must be multiples of 4096.
    pub fn read_rooms(&self, rooms: &mut [IoSliceMut<'_>], offset: u64, into_cache: bool) -> io::Result<usize> {
        let size = rooms.iter().map(|room| room.len()).sum();
        if into_cache || self.has(offset, size) {
            self.file.read_cached(rooms, offset)
        } else {
            self.file.read(rooms, offset)
        }
    }

    /// Returns whether all of these bytes are cached, or can only be read through the cache.
    pub fn has(&self, offset: u64, size: usize) -> bool {
        self.resident.as_ref().is_none_or(|map| map.has(offset, size))
    }

    fn cached(&self, room: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_cached(&mut [IoSliceMut::new(room)], offset)
    }

    /// Reads whole blocks past the page cache if `offset` and the size of `room` allow it.
    fn disk(&self, room: &mut [u8], offset: u64) -> io::Result<usize> {
        let whole = room.len() / ALIGNMENT * ALIGNMENT;
        if offset % ALIGNMENT as u64 == 0 && whole > 0 {
            return self.file.read(&mut [IoSliceMut::new(&mut room[..whole])], offset);
        }
        self.cached(room, offset)
    }
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
