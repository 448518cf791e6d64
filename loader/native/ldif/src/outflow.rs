//! LDIF into a descriptor of somebody else's, whatever it is; packed by zstd if wanted.

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

use common::CancellablePipe;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};

use crate::{Counters, Result};

const LEVEL: i32 = 3;

/// How long a reader that is busy may keep us from telling it. One that has ended is noticed at once.
const PATIENCE: Timespec = Timespec { tv_sec: 30, tv_nsec: 0 };

/// The end of a stream that was broken off. Its reader must not take it for whole: a record without a name is one that
/// slapadd, ldapadd and our own reader refuse. Shorter than what a pipe takes at once.
const BROKEN: &[u8] = b"\n\nditseed: the LDIF ends early, the rest of it could not be made\n\n";

/// How the line in [`BROKEN`] begins.
pub(crate) const MARK: &[u8] = b"ditseed: the LDIF ends early";

pub struct StreamWriter<'a> {
    /// Beside the one that is written to.
    fd: OwnedFd,
    way: Encoding<'a>,
}

enum Encoding<'a> {
    Plain(Target<'a>),
    Zstd(Box<zstd::Encoder<'static, Target<'a>>>),
}

enum Target<'a> {
    /// Nobody waits at the other end.
    Prompt(OwnedFd),
    Polled(CancellablePipe<'a>),
}

impl<'a> StreamWriter<'a> {
    /// `threads`: so many compress beside the caller; `None` leaves it plain.
    pub fn new(fd: OwnedFd, threads: Option<u32>, counters: &'a Counters) -> Result<Self> {
        let target = Target::of(fd.try_clone()?, counters)?;
        let way = match threads {
            None => Encoding::Plain(target),
            Some(threads) => {
                let mut packed = zstd::Encoder::new(target, LEVEL)?;
                packed.include_checksum(true)?;
                packed.multithread(threads)?;
                Encoding::Zstd(Box::new(packed))
            }
        };
        Ok(Self { fd, way })
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.way {
            Encoding::Plain(target) => target.write_all(bytes)?,
            Encoding::Zstd(packed) => packed.write_all(bytes)?,
        }
        Ok(())
    }

    pub fn finish(self) -> Result<()> {
        match self.way {
            Encoding::Plain(_) => {}
            Encoding::Zstd(packed) => drop(packed.finish()?),
        }
        Ok(())
    }

    /// Sees to it that nobody takes what was written for all there is. A packed stream without its end shows that itself.
    pub fn give_up(self) {
        let mut polled = [PollFd::new(&self.fd, PollFlags::OUT)];
        if matches!(self.way, Encoding::Plain(_)) && poll(&mut polled, Some(&PATIENCE)) == Ok(1) {
            // Where it cannot be written, there is nobody to be told.
            let _ = rustix::io::write(self.fd.as_fd(), BROKEN);
        }
    }
}

impl std::fmt::Debug for StreamWriter<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Outflow").field("fd", &self.fd).finish_non_exhaustive()
    }
}

impl<'a> Target<'a> {
    fn of(fd: OwnedFd, counters: &'a Counters) -> io::Result<Self> {
        let kind = FileType::from_raw_mode(fstat(&fd)?.st_mode);
        let is_prompt = matches!(
            kind,
            FileType::RegularFile | FileType::CharacterDevice | FileType::BlockDevice
        );
        Ok(if is_prompt {
            Self::Prompt(fd)
        } else {
            Self::Polled(CancellablePipe::new(fd, counters))
        })
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
