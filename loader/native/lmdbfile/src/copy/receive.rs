//! Receives a stream into a file. A transfer that breaks off can be resumed.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use disk::{Buffer, DirectFile};

use super::frame::{self, Frame, Frames, Header, garbled};
use crate::compact::{ProgressCallback, cancelled};
use crate::{Error, ErrorKind, Result};

/// Number of received bytes after which the file is synced and the journal is written.
const SYNC_INTERVAL: u64 = 256 << 20;

/// The part of an image that a receiver already has, as the journal records it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResumePoint {
    pub image: u64,
    /// Number of bytes from the start of the file.
    pub have: u64,
}

struct Receiver<'r> {
    file: DirectFile,
    journal: &'r Path,
    header: Header,
    /// All data before this offset have been received.
    have: u64,
    /// The value of `have` at the last sync.
    durable: u64,
}

/// Receives a file into `target`, syncs it, and returns its size in bytes.
///
/// If the stream breaks off, the file `journal` has a [`ResumePoint`] for [`super::send()`]. A finished transfer
/// removes the journal.
pub fn receive(input: &mut dyn Read, target: &Path, journal: &Path, watch: ProgressCallback<'_>) -> Result<u64> {
    let header = Header::read(input)?;
    if header.from > 0 && !has_omitted_part(&header, target, journal) {
        let what = "the stream resumes another copy than the one in the target";
        return Err(Error::new(ErrorKind::Misuse, what));
    }
    let file = DirectFile::open(target, 0o600, header.from == 0);
    let file = file.map_err(|error| Error::from(error).of_file(target))?;
    let (have, durable) = (header.from, header.from);
    let mut receiver = Receiver { file, journal, header, have, durable };
    let result = receiver.frames(input, watch).and_then(|()| receiver.end());
    if result.is_err() {
        // The error of the stream is reported, not an error of the journal.
        let _ = receiver.checkpoint();
    }
    result.map_err(|error| error.of_file(target)).map(|()| header.length)
}

/// Returns whether the target has all data that the stream omits.
fn has_omitted_part(header: &Header, target: &Path, journal: &Path) -> bool {
    let part = std::fs::read_to_string(journal).ok().and_then(|text| text.trim_end().parse().ok());
    let part = part.filter(|part: &ResumePoint| part.image == header.image);
    let length = target.metadata().map_or(0, |file| file.len());
    part.is_some_and(|part| part.have >= header.from) && length >= header.from
}

impl Receiver<'_> {
    fn frames(&mut self, input: &mut dyn Read, watch: ProgressCallback<'_>) -> Result<()> {
        self.checkpoint()?;
        let mut frames = Frames::new(input);
        let mut block = Buffer::new(frame::BLOCK);
        while let Frame::Data { offset, size } = frames.next(block.room())? {
            let end = offset.checked_add(size as u64).filter(|end| *end <= self.header.length);
            let end = end.filter(|_| offset >= self.have).ok_or_else(garbled)?;
            self.file.write_at(&block.room()[..size], offset)?;
            self.have = end;
            if self.have - self.durable >= SYNC_INTERVAL {
                self.checkpoint()?;
            }
            if !watch(size as u64) {
                return Err(cancelled());
            }
        }
        Ok(())
    }

    /// Syncs the received data, and records their end in the journal.
    fn checkpoint(&mut self) -> Result<()> {
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

/// Replaces the journal atomically.
fn write_journal(path: &Path, part: ResumePoint) -> io::Result<()> {
    let mut temp = path.as_os_str().to_owned();
    temp.push(".new");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&temp)?;
    writeln!(file, "{part}")?;
    file.sync_all()?;
    std::fs::rename(&temp, path)
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
        parts.ok_or("not the resume point of a receiver")
    }
}
