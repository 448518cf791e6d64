//! From a stream into a file, which can be gone on with when the stream breaks.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use disk::{Buffer, DirectFile};

use super::frame::{self, Frame, Frames, Header, garbled};
use crate::compact::{ProgressCallback, cancelled};
use crate::{Error, ErrorKind, Result};

/// After so many bytes what has come is made durable and written down.
const STEP: u64 = 256 << 20;

/// How much of which image somebody has already, as a receiver's journal tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResumePoint {
    pub image: u64,
    /// Bytes from the beginning.
    pub have: u64,
}

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
    let part = read_journal(journal).filter(|part| part.image == header.image);
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
        Ok(write_journal(self.journal, ResumePoint { image: self.header.image, have: self.have })?)
    }

    fn end(&mut self) -> Result<()> {
        self.file.set_len(self.header.length)?;
        self.file.sync()?;
        std::fs::remove_file(self.journal)?;
        Ok(())
    }
}

/// `None` where there is none, or nothing that makes sense.
fn read_journal(path: &Path) -> Option<ResumePoint> {
    std::fs::read_to_string(path).ok()?.trim_end().parse().ok()
}

/// The whole line or the one before it, whatever happens.
fn write_journal(path: &Path, part: ResumePoint) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    writeln!(file, "{part}")?;
    file.sync_all()?;
    std::fs::rename(&beside, path)
}

impl std::fmt::Display for ResumePoint {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{:016x}-{}", self.image, self.have)
    }
}

impl std::str::FromStr for ResumePoint {
    type Err = &'static str;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        let parts = text.split_once('-').and_then(|(image, have)| {
            Some(Self { image: u64::from_str_radix(image, 16).ok()?, have: have.parse().ok()? })
        });
        parts.ok_or("not what a receiver said that it has")
    }
}
