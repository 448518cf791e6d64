//! The file that is copied: where it has data, and that data, past the page cache where it can be.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::path::Path;

use std::cell::Cell;

use rustix::fs::{SeekFrom, seek};
use rustix::io::{Errno, ReadWriteFlags, preadv2, retry_on_intr};

/// Takes from the page cache what it has, and leaves there nothing that was not there before: Linux
/// 6.14 (`RWF_DONTCACHE`, linux/fs.h).
const UNCACHED: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);

#[derive(Debug)]
pub(super) struct Origin {
    file: File,
    /// The kernel or the file system does not know [`UNCACHED`].
    cached: Cell<bool>,
}

impl Origin {
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: File::open(path)?, cached: Cell::new(false) })
    }

    pub fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// The next data at or after `from`: where it begins and where it ends. All of a file is data
    /// where the file system knows no holes.
    pub fn data(&self, from: u64, end: u64) -> io::Result<Option<(u64, u64)>> {
        let start = match seek(&self.file, SeekFrom::Data(from)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(None),
            Err(Errno::INVAL) => from,
            Err(error) => return Err(error.into()),
        };
        if start >= end {
            return Ok(None);
        }
        match seek(&self.file, SeekFrom::Hole(start)) {
            Ok(hole) => Ok(Some((start, hole.min(end)))),
            Err(Errno::INVAL) => Ok(Some((start, end))),
            Err(error) => Err(error.into()),
        }
    }

    /// Fills `room`, less at the end of the file: how many bytes.
    pub fn read(&self, room: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < room.len() {
            match self.read_some(&mut room[done..], offset + done as u64)? {
                0 => break,
                count => done += count,
            }
        }
        Ok(done)
    }

    fn read_some(&self, room: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut read = |flags| {
            retry_on_intr(|| preadv2(&self.file, &mut [IoSliceMut::new(room)], offset, flags))
        };
        if !self.cached.get() {
            match read(UNCACHED) {
                Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => self.cached.set(true),
                result => return Ok(result?),
            }
        }
        Ok(read(ReadWriteFlags::empty())?)
    }
}
