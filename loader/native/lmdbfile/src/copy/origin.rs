//! The file that is copied: where it has data.

use std::fs::File;
use std::io;
use std::ops::Range;

use disk::PIECE;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

/// What is left out or copied are whole blocks of so many bytes.
const BLOCK: u64 = 4096;

/// Goes through the data of a part of a file, piece by piece.
#[derive(Debug)]
pub(super) struct Data<'f> {
    file: &'f File,
    at: u64,
    /// Where the data ends in which it is.
    stop: u64,
    end: u64,
}

impl<'f> Data<'f> {
    pub fn new(file: &'f File, range: Range<u64>) -> Self {
        Self { file, at: range.start, stop: range.start, end: range.end }
    }
}

impl Iterator for Data<'_> {
    type Item = io::Result<Range<u64>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.stop {
            let (start, stop) = match data(self.file, self.at, self.end).transpose()? {
                Ok(found) => found,
                Err(error) => return Some(Err(error)),
            };
            self.at = (start / BLOCK * BLOCK).max(self.at);
            self.stop = stop.next_multiple_of(BLOCK).min(self.end);
        }
        let start = self.at;
        self.at = self.stop.min(start + PIECE as u64);
        Some(Ok(start..self.at))
    }
}

/// The next data at or after `from`: where it begins and where it ends. All of a file is data
/// where the file system knows no holes.
fn data(file: &File, from: u64, end: u64) -> io::Result<Option<(u64, u64)>> {
    if from >= end {
        return Ok(None);
    }
    let start = match seek(file, SeekFrom::Data(from)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        Err(Errno::INVAL) => from,
        Err(error) => return Err(error.into()),
    };
    if start >= end {
        return Ok(None);
    }
    match seek(file, SeekFrom::Hole(start)) {
        Ok(hole) => Ok(Some((start, hole.min(end)))),
        Err(Errno::INVAL) => Ok(Some((start, end))),
        Err(error) => Err(error.into()),
    }
}
