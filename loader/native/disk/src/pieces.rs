//! Reads pieces of a file ahead of the caller, in the requested order.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;

use workers::Pool;

use crate::{Buffer, Source};

/// Maximum size of a piece in bytes.
pub const PIECE: usize = 1 << 20;
/// Two threads, so that the device always has a request waiting.
const THREADS: usize = 2;
/// Maximum number of pieces in memory: being read, waiting, or in use by the caller.
const MOST_PIECES: usize = 4;

/// Inspects a piece and returns it. The first argument is the offset of the piece in the file.
pub type Look<'l> = &'l (dyn Fn(u64, Buffer) -> Buffer + Sync);

/// Reads the ranges of `wanted` as pieces and passes them to `take` in order. A piece is shorter than its range if the
/// file ends there. The reading threads call `look` with each piece.
pub fn pieces<E: From<io::Error>>(
    source: &Source,
    wanted: impl Iterator<Item = io::Result<Range<u64>>>,
    look: Option<Look<'_>>,
    mut take: impl FnMut(Range<u64>, &Buffer) -> Result<(), E>,
) -> Result<(), E> {
    let shared = (source, look);
    std::thread::scope(|scope| {
        let readers = Pool::start(scope, ("pieces", THREADS), &shared)?;
        let (mut wanted, mut reading, mut spare) = (wanted.fuse(), VecDeque::new(), Vec::new());
        loop {
            while reading.len() < MOST_PIECES {
                let Some(range) = wanted.next().transpose()? else { break };
                let buffer = spare.pop().unwrap_or_else(|| Buffer::new(PIECE));
                reading.push_back(readers.submit(move |&(source, look)| read(source, look, range, buffer)));
            }
            let Some(next) = reading.pop_front() else { return Ok(()) };
            let panicked = || Err(io::Error::other("the thread that reads the file panicked"));
            let (range, mut buffer) = next.wait().unwrap_or_else(panicked)?;
            take(range, &buffer)?;
            buffer.clear();
            spare.push(buffer);
        }
    })
}

fn read(
    source: &Source,
    look: Option<Look<'_>>,
    range: Range<u64>,
    mut buffer: Buffer,
) -> io::Result<(Range<u64>, Buffer)> {
    let room = buffer.room();
    let size = usize::try_from(range.end - range.start).unwrap_or(usize::MAX).min(room.len());
    let count = source.read(&mut room[..size], range.start)?;
    buffer.fill(count);
    if let Some(look) = look {
        buffer = look(range.start, buffer);
    }
    Ok((range, buffer))
}
