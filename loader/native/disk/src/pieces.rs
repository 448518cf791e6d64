//! Pieces of a file read ahead of whoever takes them, in the order in which they are asked for.

use std::io;
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, Scope};

use crate::{Buffer, Source};

/// Bytes of a piece at most.
pub const PIECE: usize = 1 << 20;
/// So that the device has the next one to do when one is done.
const THREADS: usize = 2;
/// Pieces that are being read, were read, or are with whoever takes them.
const UNDER_WAY: usize = 4;

/// A piece, and as much of it as there is.
type Block = (Range<u64>, Buffer);

/// Whoever looks at a piece, which begins at this byte of the file, and gives it back.
pub type Look<'l> = &'l (dyn Fn(u64, Buffer) -> Buffer + Sync);

/// Reads each of `wanted`, and has them taken in turn. One that is shorter than it should be is where the file ends.
/// `look`: at each of them, in the threads that read.
pub fn pieces<E: From<io::Error>>(
    source: &Source,
    wanted: impl Iterator<Item = io::Result<Range<u64>>>,
    look: Option<Look<'_>>,
    mut take: impl FnMut(Range<u64>, &Buffer) -> Result<(), E>,
) -> Result<(), E> {
    std::thread::scope(|scope| {
        let readers: io::Result<Vec<_>> =
            (0..THREADS).map(|_| Reader::start(scope, source, look)).collect();
        let (readers, mut wanted, mut spare) = (readers?, wanted.fuse(), Vec::new());
        let (mut asked, mut taken) = (0, 0);
        loop {
            while asked - taken < UNDER_WAY {
                let Some(range) = wanted.next().transpose()? else { break };
                let buffer = spare.pop().unwrap_or_else(|| Buffer::new(PIECE));
                readers[asked % THREADS].ask((range, buffer));
                asked += 1;
            }
            if taken == asked {
                return Ok(());
            }
            let (range, mut buffer) = readers[taken % THREADS].wait()?;
            taken += 1;
            take(range, &buffer)?;
            buffer.clear();
            spare.push(buffer);
        }
    })
}

/// A thread that reads what it is asked for, and ends when nobody can ask any more.
struct Reader {
    orders: Sender<Block>,
    read: Receiver<io::Result<Block>>,
}

impl Reader {
    fn start<'s>(
        scope: &'s Scope<'s, '_>,
        source: &'s Source,
        look: Option<Look<'s>>,
    ) -> io::Result<Self> {
        let ((orders, wanted), (done, read)) = (channel(), channel());
        let work = move || {
            for piece in wanted {
                // Nobody waits any more when the taking has ended with an error.
                let _ = done.send(filled(source, piece).map(|piece| looked_at(look, piece)));
            }
        };
        Builder::new().name("pieces".into()).spawn_scoped(scope, work)?;
        Ok(Self { orders, read })
    }

    fn ask(&self, piece: Block) {
        // A thread that is gone shows when the piece is waited for.
        let _ = self.orders.send(piece);
    }

    fn wait(&self) -> io::Result<Block> {
        let gone = |_| Err(io::Error::other("the thread that reads the file panicked"));
        self.read.recv().unwrap_or_else(gone)
    }
}

fn filled(source: &Source, (range, mut buffer): Block) -> io::Result<Block> {
    let room = buffer.room();
    let size = usize::try_from(range.end - range.start).unwrap_or(usize::MAX).min(room.len());
    let count = source.read(&mut room[..size], range.start)?;
    buffer.fill(count);
    Ok((range, buffer))
}

fn looked_at(look: Option<Look<'_>>, (range, buffer): Block) -> Block {
    let Some(look) = look else { return (range, buffer) };
    let buffer = look(range.start, buffer);
    (range, buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_turn_and_as_far_as_there_is() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let bytes: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(90_001).collect();
        std::fs::write(&path, &bytes).unwrap();
        let source = Source::open(&path).unwrap();
        let wanted: Vec<_> = (0..30).map(|at| at * 4096..(at + 1) * 4096).collect();
        let (mut came, mut content) = (Vec::new(), Vec::new());
        let take = |range, buffer: &Buffer| {
            came.push(range);
            content.extend_from_slice(buffer);
            Ok::<_, io::Error>(())
        };
        pieces(&source, wanted.iter().cloned().map(Ok), None, take).unwrap();
        assert_eq!(came, wanted);
        assert!(content == bytes);
    }

    #[test]
    fn whoever_takes_gives_up() {
        let source = Source::open("/dev/zero".as_ref()).unwrap();
        let endless = (0..).map(|at| Ok(at * 4096..(at + 1) * 4096));
        let mut left = 10;
        let taken = pieces(&source, endless, None, |_, _| {
            left -= 1;
            if left > 0 { Ok(()) } else { Err(io::Error::from(io::ErrorKind::StorageFull)) }
        });
        assert_eq!(taken.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
