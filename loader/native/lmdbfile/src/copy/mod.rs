//! Copies of a file as it stands, page for page and hole for hole: into another file, or into a stream.
//!
//! Of a file that is written to, that is right as long as a reader's slot in the lock file holds the
//! snapshot: LMDB writes to none of its pages then. Only the meta pages go on to change, so that they
//! are not taken from the file but given.

mod frame;
mod receive;

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

use disk::{Buffer, DirectFile, Look, PIECE, Source, pieces};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use crate::compact::{ProgressCallback, cancelled};
use crate::{Error, ErrorKind, Result, Seen};
use frame::{Frames, Header};
pub use receive::{ResumePoint, receive};

/// As the user's own mask has it.
const MODE: u32 = 0o666;

/// What the copy is to be.
#[derive(Debug, Clone, Copy)]
pub struct Image<'i> {
    /// The file's first bytes, both meta pages: whole blocks of 4096.
    pub head: &'i [u8],
    /// Bytes up to the last page in use. A file may end before that, when that one is free.
    pub length: u64,
    /// Whether it is a snapshot that was compacted: its pages are others then, whatever the head says.
    pub compacted: bool,
}

/// Copies the data of `source` into the new file `target`, and waits until the disk has it: the
/// bytes of the copy. `seen`: notes what the pages are, for a check of the copy.
pub fn copy(
    source: &Path,
    image: &Image<'_>,
    target: &Path,
    seen: Option<&Seen>,
    watch: ProgressCallback<'_>,
) -> Result<u64> {
    let (origin, end) = open(source, image)?;
    let of_target = |error: io::Error| Error::from(error).of_file(target);
    let mut disk = DirectFile::create(target, MODE).map_err(of_target)?;
    disk.write_at(&Buffer::from(image.head), 0).map_err(of_target)?;
    let head = image.head.len() as u64;
    watch(head);
    let mut told = None;
    let look = seen.map(|seen| |start, bytes| seen.look(start, bytes));
    let look = look.as_ref().map(|look| look as Look<'_>);
    let copied = each(&origin, head..end, look, watch, |start, bytes| {
        disk.write_at(bytes, start).map_err(|error| {
            told = Some(of_target(error));
            cancelled()
        })
    });
    copied.map_err(|error| told.unwrap_or_else(|| error.of_file(source)))?;
    disk.set_len(end).and_then(|()| disk.sync()).map_err(of_target)?;
    Ok(end)
}

/// Sends the data of `source`: from which byte on. That is 0 when `part` is of another image.
pub fn send(
    source: &Path,
    image: &Image<'_>,
    part: Option<ResumePoint>,
    out: &mut dyn Write,
    watch: ProgressCallback<'_>,
) -> Result<u64> {
    let (origin, length) = open(source, image)?;
    let number = frame::image(image.head, image.compacted);
    let part = part.filter(|part| part.image == number && part.have <= length);
    let from = part.map_or(0, |part| part.have);
    Header { image: number, length, from }.write(out)?;
    let mut frames = Frames::new(out);
    let head = image.head.len() as u64;
    if from < head {
        frames.data(0, image.head)?;
    }
    each(&origin, from.max(head)..length, None, watch, |start, bytes| {
        Ok(frames.data(start, bytes)?)
    })
    .map_err(|error| error.of_file(source))?;
    frames.end(length)?;
    Ok(from)
}

/// The file, and where in it the copy ends.
fn open(source: &Path, image: &Image<'_>) -> Result<(Source, u64)> {
    let open = || {
        let origin = Source::open(source)?;
        let length = origin.file().metadata()?.len();
        Ok((origin, image.length.min(length)))
    };
    open().map_err(|error: io::Error| Error::from(error).of_file(source))
}

/// All data in that range, piece by piece.
fn each(
    origin: &Source,
    range: Range<u64>,
    look: Option<Look<'_>>,
    watch: ProgressCallback<'_>,
    mut take: impl FnMut(u64, &Buffer) -> Result<()>,
) -> Result<()> {
    let Range { start, end } = range;
    let data = Data { file: origin.file(), at: start, stop: start, end };
    pieces(origin, data, look, |piece, bytes| {
        let count = bytes.len() as u64;
        if count < piece.end - piece.start {
            return Err(cut());
        }
        take(piece.start, bytes)?;
        if watch(count) { Ok(()) } else { Err(cancelled()) }
    })?;
    // What was cut off before it was asked for looks like a hole.
    if origin.file().metadata()?.len() < end { Err(cut()) } else { Ok(()) }
}

fn cut() -> Error {
    Error::new(ErrorKind::Corrupt, "the file has been cut meanwhile")
}

/// What is left out or copied are whole blocks of so many bytes.
const BLOCK: u64 = 4096;

/// Goes through the data of a part of a file, piece by piece.
#[derive(Debug)]
struct Data<'f> {
    file: &'f File,
    at: u64,
    /// Where the data ends in which it is.
    stop: u64,
    end: u64,
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
