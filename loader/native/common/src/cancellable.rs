//! Pipes whose waits can be cancelled.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, fcntl_getfl, fstat};
use rustix::io::Errno;
use rustix::pipe::fcntl_setpipe_size;

use crate::Counters;

/// Longest time between two checks for a cancellation.
const POLL_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// `PIPE_BUF` of Linux: a write of at most this many bytes to a pipe that polls writable never blocks.
const PIPE_WRITE: usize = 4096;
/// Pipe capacity in bytes: the largest that Linux lets an ordinary user set. A larger pipe means fewer wake-ups.
const PIPE: usize = 1 << 20;

pub struct CancellablePipe<'a> {
    fd: OwnedFd,
    counters: &'a Counters,
    /// Maximum number of bytes per write.
    max_write: usize,
}

impl<'a> CancellablePipe<'a> {
    pub fn new(fd: OwnedFd, counters: &'a Counters) -> Self {
        match nonblocking_writer(&fd) {
            Some(fd) => Self { fd, counters, max_write: PIPE },
            None => Self { fd, counters, max_write: PIPE_WRITE },
        }
    }

    /// Waits for `event`, then calls `act`. Repeats both if the descriptor is not ready after all (EAGAIN) or a signal
    /// came.
    fn when_ready(&self, event: PollFlags, mut act: impl FnMut(&OwnedFd) -> Result<usize, Errno>) -> io::Result<usize> {
        loop {
            self.counters.check()?;
            let mut polled = [PollFd::new(&self.fd, event)];
            let done = match poll(&mut polled, Some(&POLL_TIMEOUT)) {
                Ok(0) => continue,
                Ok(_) => act(&self.fd),
                Err(error) => Err(error),
            };
            if !matches!(done, Err(Errno::INTR | Errno::AGAIN)) {
                // A cancellation may have closed the other end, so it is reported instead of the error of the pipe.
                self.counters.check()?;
                return Ok(done?);
            }
        }
    }
}

impl Read for CancellablePipe<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.when_ready(PollFlags::IN, |fd| rustix::io::read(fd, &mut *buffer))
    }
}

impl Write for CancellablePipe<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = &bytes[..bytes.len().min(self.max_write)];
        self.when_ready(PollFlags::OUT, |fd| rustix::io::write(fd, piece))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reopens the writing end of a pipe as non-blocking; setting `O_NONBLOCK` on `fd` itself would affect processes that
/// share it. Returns `None` if `fd` is not the writing end of a pipe, or cannot be reopened.
fn nonblocking_writer(fd: &OwnedFd) -> Option<OwnedFd> {
    if FileType::from_raw_mode(fstat(fd).ok()?.st_mode) != FileType::Fifo {
        return None;
    }
    // The kernel refuses this size beyond `/proc/sys/fs/pipe-user-pages-soft`; the pipe then keeps its capacity.
    let _ = fcntl_setpipe_size(fd, PIPE);
    if fcntl_getfl(fd).ok()? & OFlags::RWMODE != OFlags::WRONLY {
        return None;
    }
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    rustix::fs::open(path, OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_pipe_takes_much_at_once_and_never_blocks() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        let theirs = write.try_clone().unwrap();
        let counters = Counters::default();
        let mut polled = CancellablePipe::new(write, &counters);
        let bytes = vec![7; 3 << 20];
        let taken = polled.write(&bytes).unwrap();
        assert!(taken > PIPE_WRITE, "{taken}");
        assert!(!fcntl_getfl(&theirs).unwrap().contains(OFlags::NONBLOCK));
        std::thread::scope(|scope| {
            let begun = Instant::now();
            let writer = scope.spawn(|| polled.write_all(&bytes));
            std::thread::sleep(std::time::Duration::from_millis(50));
            counters.cancel();
            let error = writer.join().unwrap().unwrap_err();
            assert_eq!(crate::Error::from(error).code, crate::Code::Cancelled);
            assert!(begun.elapsed().as_secs() < 30);
        });
        let mut room = vec![0; taken];
        assert!(rustix::io::read(&read, &mut room).unwrap() > 0 && room[0] == 7);
    }

    #[test]
    fn a_reader_that_is_gone_is_reported() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        drop(read);
        let counters = Counters::default();
        let error = CancellablePipe::new(write, &counters).write(b"x").unwrap_err();
        assert_eq!(crate::Error::from(error).code, crate::Code::Pipe);
    }
}
