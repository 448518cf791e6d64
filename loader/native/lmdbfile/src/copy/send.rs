//! From a file into a stream.

use std::io::Write;
use std::path::Path;

use super::frame::{self, Frames, Header};
use super::plain::{Image, each, open};
use crate::Result;
use crate::compact::ProgressCallback;

/// How much of which image somebody has already, as a receiver's journal tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResumePoint {
    pub image: u64,
    /// Bytes from the beginning.
    pub have: u64,
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
