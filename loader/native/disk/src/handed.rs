//! Passes output to another thread in pieces.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rustix::io::Errno;

use crate::{Buffer, BufferPool, Fill};

/// Maximum number of pieces that wait for the receiver; then the writer waits.
const WAITING: usize = 2;

/// The writing end. It fails with EPIPE once the receiver is gone.
#[derive(Debug)]
pub struct PieceWriter {
    buffer: Buffer,
    size: usize,
    pool: Arc<BufferPool>,
    receiver: SyncSender<Buffer>,
}

impl PieceWriter {
    /// Creates both ends. Each piece except the last has `size` bytes, which must be a multiple of 64 KiB. The memory
    /// of a dropped piece is reused.
    pub fn new(size: usize) -> (Self, Receiver<Buffer>) {
        let (receiver, pieces) = sync_channel(WAITING);
        let pool = Arc::new(BufferPool::default());
        (Self { buffer: pool.buffer(size), size, pool, receiver }, pieces)
    }

    /// Sends the last piece and closes the output.
    pub fn finish(mut self) -> io::Result<()> {
        let last = std::mem::replace(&mut self.buffer, Buffer::new(0));
        if last.is_empty() { Ok(()) } else { self.send(last) }
    }

    fn send(&self, piece: Buffer) -> io::Result<()> {
        self.receiver.send(piece).map_err(|_| Errno::PIPE.into())
    }
}

impl Fill for PieceWriter {
    #[inline]
    fn room(&mut self) -> io::Result<&mut [u8]> {
        if self.buffer.len() == self.size {
            let full = std::mem::replace(&mut self.buffer, self.pool.buffer(self.size));
            self.send(full)?;
        }
        let left = self.size - self.buffer.len();
        Ok(&mut self.buffer.room()[..left])
    }

    fn filled(&mut self, count: usize) {
        self.buffer.fill(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 1 << 20;

    #[test]
    fn pieces_arrive_in_order() {
        let (mut writer, pieces) = PieceWriter::new(SIZE);
        let all = std::thread::spawn(move || pieces.iter().map(|one| one.to_vec()).collect());
        let bytes: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(9 * SIZE + 5).collect();
        bytes.chunks(70_001).try_for_each(|part| writer.write(part)).unwrap();
        writer.zeros(2 * SIZE).unwrap();
        writer.finish().unwrap();
        let all: Vec<Vec<u8>> = all.join().unwrap();
        let (last, full) = all.split_last().unwrap();
        assert!(full.iter().all(|piece| piece.len() == SIZE) && last.len() == 5);
        assert!(all.concat() == [bytes, vec![0; 2 * SIZE]].concat());
        // Empty output has no piece.
        let (writer, pieces) = PieceWriter::new(SIZE);
        writer.finish().unwrap();
        assert!(pieces.recv().is_err());
    }

    #[test]
    fn a_receiver_that_is_gone_is_reported() {
        let (mut writer, pieces) = PieceWriter::new(SIZE);
        drop(pieces);
        let error = writer.zeros(2 * SIZE).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
