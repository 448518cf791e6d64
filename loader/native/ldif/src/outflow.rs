//! Writes LDIF to a descriptor of the caller, with zstd compression if requested.

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

use common::CancellablePipe;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};

use crate::{Counters, Result};

const LEVEL: i32 = 3;

/// Maximum time to wait until a busy reader has room for [`BROKEN`]. If the reader has ended, the wait ends at once.
const PATIENCE: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };

/// Ends an aborted stream, so that its reader does not take it for complete: slapadd, ldapadd and ditseed refuse a
/// record without a DN. It is short enough for one atomic write to a pipe.
const BROKEN: &[u8] = b"\n\nditseed: the LDIF ends early because of an error\n\n";

/// The beginning of the text in [`BROKEN`].
pub(crate) const MARK: &[u8] = b"ditseed: the LDIF ends early";

pub struct StreamWriter<'a> {
    /// A duplicate of the descriptor to which `encoding` writes.
    fd: OwnedFd,
    encoding: Encoding<'a>,
}

enum Encoding<'a> {
    Plain(Target<'a>),
    Zstd(Box<zstd::Encoder<'static, Target<'a>>>),
}

enum Target<'a> {
    /// A file or device, where a writer never waits for a reader.
    Prompt(OwnedFd),
    Polled(CancellablePipe<'a>),
}

impl<'a> StreamWriter<'a> {
    /// `threads` is the number of compressing threads in addition to the caller; `None` writes without compression.
    pub fn new(fd: OwnedFd, threads: Option<u32>, counters: &'a Counters) -> Result<Self> {
        let target = Target::of(fd.try_clone()?, counters)?;
        let encoding = match threads {
            None => Encoding::Plain(target),
            Some(threads) => {
                let mut packed = zstd::Encoder::new(target, LEVEL)?;
                packed.include_checksum(true)?;
                packed.multithread(threads)?;
                Encoding::Zstd(Box::new(packed))
            }
        };
        Ok(Self { fd, encoding })
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.encoding {
            Encoding::Plain(target) => target.write_all(bytes)?,
            Encoding::Zstd(packed) => packed.write_all(bytes)?,
        }
        Ok(())
    }

    pub fn finish(self) -> Result<()> {
        match self.encoding {
            Encoding::Plain(_) => {}
            Encoding::Zstd(packed) => drop(packed.finish()?),
        }
        Ok(())
    }

    /// Marks the output as incomplete. A compressed stream needs no mark, because its final frame is missing.
    pub fn give_up(self) {
        let mut polled = [PollFd::new(&self.fd, PollFlags::OUT)];
        if matches!(self.encoding, Encoding::Plain(_)) && poll(&mut polled, Some(&PATIENCE)) == Ok(1) {
            // If the write fails, there is no reader.
            let _ = rustix::io::write(self.fd.as_fd(), BROKEN);
        }
    }
}

impl std::fmt::Debug for StreamWriter<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("StreamWriter").field("fd", &self.fd).finish_non_exhaustive()
    }
}

impl<'a> Target<'a> {
    fn of(fd: OwnedFd, counters: &'a Counters) -> io::Result<Self> {
        let kind = FileType::from_raw_mode(fstat(&fd)?.st_mode);
        let is_prompt = matches!(kind, FileType::RegularFile | FileType::CharacterDevice | FileType::BlockDevice);
        Ok(if is_prompt { Self::Prompt(fd) } else { Self::Polled(CancellablePipe::new(fd, counters)) })
    }
}

impl Write for Target<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Prompt(fd) => Ok(rustix::io::write(fd.as_fd(), bytes)?),
            Self::Polled(polled) => polled.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
