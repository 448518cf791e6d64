//! From file to file.

use std::io;
use std::path::Path;

use disk::{Buffer, DirectFile, Look, Source, pieces};

use super::origin::Data;
use crate::compact::{ProgressCallback, cancelled};
use crate::{Error, ErrorKind, Result, Seen};

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

/// The file, and where in it the copy ends.
pub(super) fn open(source: &Path, image: &Image<'_>) -> Result<(Source, u64)> {
    let open = || {
        let origin = Source::open(source)?;
        let length = origin.file().metadata()?.len();
        Ok((origin, image.length.min(length)))
    };
    open().map_err(|error: io::Error| Error::from(error).of_file(source))
}

/// All data in that range, piece by piece.
pub(super) fn each(
    origin: &Source,
    range: std::ops::Range<u64>,
    look: Option<Look<'_>>,
    watch: ProgressCallback<'_>,
    mut take: impl FnMut(u64, &Buffer) -> Result<()>,
) -> Result<()> {
    let (data, end) = (Data::new(origin.file(), range.clone()), range.end);
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
