//! Sequential output into buffers.

use std::io;

pub trait Fill {
    /// Returns room for at least one byte; the caller fills some of it and calls [`Self::filled`]. May wait until a
    /// full buffer is consumed.
    fn room(&mut self) -> io::Result<&mut [u8]>;

    /// Marks the first `count` bytes of the room as filled.
    fn filled(&mut self, count: usize);

    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = self.room()?;
            let count = room.len().min(bytes.len());
            room[..count].copy_from_slice(&bytes[..count]);
            self.filled(count);
            bytes = &bytes[count..];
        }
        Ok(())
    }

    fn zeros(&mut self, mut count: usize) -> io::Result<()> {
        while count > 0 {
            let room = self.room()?;
            let some = room.len().min(count);
            room[..some].fill(0);
            self.filled(some);
            count -= some;
        }
        Ok(())
    }
}
