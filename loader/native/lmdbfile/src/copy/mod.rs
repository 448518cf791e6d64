//! Copies a file page for page and hole for hole, to another file or to a stream.
//!
//! A database in use may be copied while a reader slot in the lock file protects the snapshot, because LMDB then does
//! not change the snapshot's pages. Only the meta pages change, so the caller passes them.

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
use crate::file::MODE;
use crate::{Error, ErrorKind, Result, Seen};
use frame::{Frames, Header};
pub use receive::{ResumePoint, receive};

/// The content of the copy.
#[derive(Debug, Clone, Copy)]
pub struct Image<'i> {
    /// The first bytes of the file with both meta pages. Their number is a multiple of 4096.
    pub head: &'i [u8],
    /// Length in bytes up to the last page in use. The file may be shorter if its last pages are free.
    pub length: u64,
    /// Whether the source is a compacted copy. Its pages differ from those of an uncompacted copy, even if the meta
    /// pages are equal.
    pub compacted: bool,
}

/// Copies `source` to the new file `target`, syncs it, and returns its size in bytes. `seen` records the contents of
/// pages for a check of the copy.
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
    let mut failure = None;
    let look = seen.map(|seen| |start, bytes| seen.look(start, bytes));
    let look = look.as_ref().map(|look| look as Look<'_>);
    let result = each(&origin, head..end, look, watch, |start, bytes| {
        disk.write_at(bytes, start).map_err(|error| {
            failure = Some(of_target(error));
            cancelled()
        })
    });
    result.map_err(|error| failure.unwrap_or_else(|| error.of_file(source)))?;
    disk.set_len(end).and_then(|()| disk.sync()).map_err(of_target)?;
    Ok(end)
}

/// Sends `source` to `out`. Begins after the data that the receiver already has (`part`), or at 0 if `part` is of
/// another image. Returns the offset at which it begins.
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
    each(&origin, from.max(head)..length, None, watch, |start, bytes| Ok(frames.data(start, bytes)?))
        .map_err(|error| error.of_file(source))?;
    frames.end(length)?;
    Ok(from)
}

/// Opens the file. Returns the file and the offset where the copy ends.
fn open(source: &Path, image: &Image<'_>) -> Result<(Source, u64)> {
    let open = || {
        let origin = Source::open(source)?;
        let length = origin.file().metadata()?.len();
        Ok((origin, image.length.min(length)))
    };
    open().map_err(|error: io::Error| Error::from(error).of_file(source))
}

/// Calls `take` with the offset and the bytes of each piece of data in the range.
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
    // If the file was truncated meanwhile, the missing part looked like a hole.
    if origin.file().metadata()?.len() < end { Err(cut()) } else { Ok(()) }
}

fn cut() -> Error {
    Error::new(ErrorKind::Corrupt, "the file was truncated meanwhile")
}

/// Pieces of data begin and end at multiples of this number of bytes.
const BLOCK: u64 = 4096;

/// Iterates over the data of a range of a file, piece by piece.
struct Data<'f> {
    file: &'f File,
    at: u64,
    /// End of the current run of data.
    stop: u64,
    end: u64,
}

impl Iterator for Data<'_> {
    type Item = io::Result<Range<u64>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.stop {
            let (start, stop) = match data(self.file, self.at, self.end).transpose()? {
                Ok(data) => data,
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

/// Returns the start and the end of the next data at or after `from`; `None` if there are none before `end`. Everything
/// is data if the file system does not report holes.
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
