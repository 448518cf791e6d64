//! From file to file.

use std::io;
use std::ops::Range;
use std::path::Path;

use disk::Stream;

use super::origin::Origin;
use crate::compact::{Watch, cancelled};
use crate::{Error, Result};

/// As the user's own mask has it.
const MODE: u32 = 0o666;
/// What is skipped or copied are whole blocks of so many bytes.
const BLOCK: u64 = 4096;

/// What the copy is to be.
#[derive(Debug, Clone, Copy)]
pub struct Image<'i> {
    /// The file's first bytes, both meta pages: whole blocks of 4096.
    pub head: &'i [u8],
    /// Bytes up to the last page in use. A file may end before that, when that one is free.
    pub length: u64,
}

/// Copies the data of `source` into the new file `target`, and waits until the disk has it: the
/// bytes of the copy.
pub fn copy(source: &Path, image: &Image<'_>, target: &Path, watch: Watch<'_>) -> Result<u64> {
    let open = || {
        let origin = Origin::open(source)?;
        let end = image.length.min(origin.len()?);
        Ok((origin, end))
    };
    let (origin, end) = open().map_err(|error: io::Error| Error::from(error).of_file(source))?;
    let of_target = |error: io::Error| Error::from(error).of_file(target);
    let mut stream = Stream::create(target, MODE, disk::BUFFER).map_err(of_target)?;
    stream.write(image.head).map_err(of_target)?;
    let mut at = image.head.len() as u64;
    watch(at);
    while let Some((start, stop)) = origin.data(at, end)? {
        let start = (start / BLOCK * BLOCK).max(at);
        stream.skip(start - at).map_err(of_target)?;
        at = start
            + pass(&origin, start..stop.next_multiple_of(BLOCK).min(end), &mut stream, watch)?;
        if at < stop {
            break; // The file has been cut meanwhile.
        }
    }
    let disk = stream.finish().map_err(of_target)?;
    disk.set_len(end).and_then(|()| disk.sync()).map_err(of_target)?;
    Ok(end)
}

/// How many bytes there were.
fn pass(origin: &Origin, range: Range<u64>, stream: &mut Stream, watch: Watch<'_>) -> Result<u64> {
    let mut at = range.start;
    while at < range.end {
        let room = stream.room()?;
        let wanted = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(room.len());
        let count = origin.read(&mut room[..wanted], at)?;
        if count == 0 {
            break;
        }
        stream.filled(count);
        at += count as u64;
        if !watch(count as u64) {
            return Err(cancelled());
        }
    }
    Ok(at - range.start)
}
