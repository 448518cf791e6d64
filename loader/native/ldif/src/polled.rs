//! Pipes that stay cancellable while the other side keeps us waiting.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::Counters;

/// How long a blocked call may overlook `cancel()`.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// POSIX's least `PIPE_BUF` on Linux: a write of this size to a pipe that polls writable never blocks.
const PIPE_WRITE: usize = 4096;

#[derive(Debug)]
pub struct Polled<'a> {
    fd: OwnedFd,
    counters: &'a Counters,
}

impl<'a> Polled<'a> {
    pub fn new(fd: OwnedFd, counters: &'a Counters) -> Self {
        Self { fd, counters }
    }

    /// Waits for `event`, then acts; a descriptor that its owner made non-blocking may need a retry.
    fn when_ready(
        &self,
        event: PollFlags,
        mut act: impl FnMut(&OwnedFd) -> Result<usize, Errno>,
    ) -> io::Result<usize> {
        loop {
            if self.counters.is_cancelled() {
                return Err(io::Error::other("cancelled"));
            }
            let mut polled = [PollFd::new(&self.fd, event)];
            let done = match poll(&mut polled, Some(&PATIENCE)) {
                Ok(0) => continue,
                Ok(_) => act(&self.fd),
                Err(error) => Err(error),
            };
            if !matches!(done, Err(Errno::INTR | Errno::AGAIN)) {
                return Ok(done?);
            }
        }
    }
}

impl Read for Polled<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.when_ready(PollFlags::IN, |fd| rustix::io::read(fd, &mut *buffer))
    }
}

impl Write for Polled<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(PIPE_WRITE)];
        self.when_ready(PollFlags::OUT, |fd| rustix::io::write(fd, piece))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
