//! From a file into a stream.

use std::io::Write;
use std::ops::Range;
use std::path::Path;

use super::frame::{self, Frames, Header};
use super::origin::Origin;
use super::plain::Image;
use crate::compact::{Watch, cancelled};
use crate::{Error, ErrorKind, Result};

/// How much of which image somebody has already, as a receiver's journal tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    pub image: u64,
    /// Bytes from the beginning.
    pub have: u64,
}

/// Sends the data of `source`: from which byte on. That is 0 when `part` is of another image.
pub fn send(
    source: &Path,
    image: &Image<'_>,
    part: Option<Part>,
    out: &mut dyn Write,
    watch: Watch<'_>,
) -> Result<u64> {
    let origin = Origin::open(source).map_err(|error| Error::from(error).of_file(source))?;
    let length = image.length.min(origin.len()?);
    let number = frame::image(image.head);
    let part = part.filter(|part| part.image == number && part.have <= length);
    let from = part.map_or(0, |part| part.have);
    Header { image: number, length, from }.write(out)?;
    let mut frames = Frames::new(out);
    let head = image.head.len() as u64;
    if from < head {
        frames.data(0, image.head)?;
    }
    data(&origin, from.max(head)..length, &mut frames, watch)
        .map_err(|error| error.of_file(source))?;
    frames.end(length)?;
    Ok(from)
}

fn data(
    origin: &Origin,
    range: Range<u64>,
    frames: &mut Frames<&mut dyn Write>,
    watch: Watch<'_>,
) -> Result<()> {
    let mut at = range.start;
    let mut room = vec![0; frame::BLOCK];
    while let Some((start, stop)) = origin.data(at, range.end)? {
        at = start;
        while at < stop {
            let wanted = usize::try_from(stop - at).unwrap_or(usize::MAX).min(room.len());
            let count = origin.read(&mut room[..wanted], at)?;
            if count == 0 {
                return Err(Error::new(ErrorKind::Corrupt, "the file has been cut meanwhile"));
            }
            frames.data(at, &room[..count])?;
            at += count as u64;
            if !watch(count as u64) {
                return Err(cancelled());
            }
        }
    }
    Ok(())
}
