//! From a stream into a file, which can be gone on with when the stream breaks.

use std::io::Read;
use std::path::Path;

use disk::{Buffer, DirectFile};

use super::frame::{self, Frame, Frames, Header, garbled};
use super::journal;
use super::send::ResumePoint;
use crate::compact::{ProgressCallback, cancelled};
use crate::{Error, ErrorKind, Result};

/// After so many bytes what has come is made durable and written down.
const STEP: u64 = 256 << 20;

struct Receiver<'r> {
    file: DirectFile,
    journal: &'r Path,
    header: Header,
    /// All before it is there.
    have: u64,
    durable: u64,
}

/// Receives into `target`, and waits until the disk has it: the bytes of the copy.
///
/// When the stream breaks, `journal` tells how much there is; with that, [`super::send()`] goes on.
/// At the end the file is gone.
pub fn receive(
    input: &mut dyn Read,
    target: &Path,
    journal: &Path,
    watch: ProgressCallback<'_>,
) -> Result<u64> {
    let header = Header::read(input)?;
    if header.from > 0 && !is_there(&header, target, journal) {
        let what = "the stream goes on with another copy than what is here";
        return Err(Error::new(ErrorKind::Misuse, what));
    }
    let file = DirectFile::open(target, 0o600, header.from == 0);
    let file = file.map_err(|error| Error::from(error).of_file(target))?;
    let (have, durable) = (header.from, header.from);
    let mut receiver = Receiver { file, journal, header, have, durable };
    let result = receiver.frames(input, watch).and_then(|()| receiver.end());
    if result.is_err() {
        // The reason why the stream broke is what the caller has to know.
        let _ = receiver.note();
    }
    result.map_err(|error| error.of_file(target)).map(|()| header.length)
}

/// Whether what is not sent is in the target.
fn is_there(header: &Header, target: &Path, journal: &Path) -> bool {
    let part = journal::read(journal).filter(|part| part.image == header.image);
    let length = target.metadata().map_or(0, |file| file.len());
    part.is_some_and(|part| part.have >= header.from) && length >= header.from
}

impl Receiver<'_> {
    fn frames(&mut self, input: &mut dyn Read, watch: ProgressCallback<'_>) -> Result<()> {
        self.note()?;
        let mut frames = Frames::new(input);
        let mut block = Buffer::new(frame::BLOCK);
        while let Frame::Data { offset, size } = frames.next(block.room())? {
            let end = offset.checked_add(size as u64).filter(|end| *end <= self.header.length);
            let end = end.filter(|_| offset >= self.have).ok_or_else(garbled)?;
            self.file.write_at(&block.room()[..size], offset)?;
            self.have = end;
            if self.have - self.durable >= STEP {
                self.note()?;
            }
            if !watch(size as u64) {
                return Err(cancelled());
            }
        }
        Ok(())
    }

    /// Makes what has come durable, and says so.
    fn note(&mut self) -> Result<()> {
        self.file.sync()?;
        self.durable = self.have;
        Ok(journal::write(self.journal, ResumePoint { image: self.header.image, have: self.have })?)
    }

    fn end(&mut self) -> Result<()> {
        self.file.set_len(self.header.length)?;
        self.file.sync()?;
        std::fs::remove_file(self.journal)?;
        Ok(())
    }
}
