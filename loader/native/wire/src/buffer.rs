//! The buffers of a connection: received bytes that are not yet consumed, and bytes that are not yet sent.

use std::mem;
use std::ops::Range;

use crate::Result;
use crate::ber::{SEQUENCE, frame};

/// Maximum number of bytes per read. A large read gets many messages at once.
const READ_SIZE: usize = 512 * 1024;

/// Maximum size of a message in bytes. A larger message is a protocol error.
pub const MAX_MESSAGE: usize = 256 * 1024 * 1024;

/// Splits received bytes into messages. Memory grows with the received bytes, not with the length that a server claims.
pub struct Input {
    memory: Vec<u8>,
    filled: Range<usize>,
}

impl Default for Input {
    fn default() -> Self {
        Self { memory: vec![0; READ_SIZE], filled: 0..0 }
    }
}

impl Input {
    /// Consumes the next complete message and returns its range for [`Self::bytes`], valid until the next read.
    #[allow(clippy::should_implement_trait, reason = "may fail, and may return a message after None")]
    pub fn next(&mut self) -> Result<Option<Range<usize>>> {
        let waiting = &self.memory[self.filled.clone()];
        let Some(length) = frame(waiting, SEQUENCE, MAX_MESSAGE)? else { return Ok(None) };
        if length > waiting.len() {
            let doubled = (2 * waiting.len()).max(READ_SIZE);
            self.make_room(length.min(doubled));
            return Ok(None);
        }
        let start = self.filled.start;
        self.filled.start += length;
        Ok(Some(start..start + length))
    }

    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.memory[range]
    }

    /// Returns the buffer to read into, which is never empty.
    pub fn room(&mut self) -> &mut [u8] {
        if self.filled.is_empty() || self.filled.end == self.memory.len() {
            self.make_room(self.filled.len() + 1);
        }
        &mut self.memory[self.filled.end..]
    }

    pub fn fill(&mut self, count: usize) {
        self.filled.end = (self.filled.end + count).min(self.memory.len());
    }

    /// Moves pending bytes to the front, and makes room for `length` bytes in total. Frees the memory of a large
    /// message.
    fn make_room(&mut self, length: usize) {
        if self.filled.start > 0 {
            self.memory.copy_within(self.filled.clone(), 0);
            self.filled = 0..self.filled.len();
        }
        let wanted = length.max(READ_SIZE);
        if wanted > self.memory.len() {
            self.memory.resize(wanted.next_multiple_of(READ_SIZE), 0);
        } else if self.filled.is_empty() && self.memory.len() > 4 * READ_SIZE {
            self.memory = vec![0; READ_SIZE];
        }
    }
}

/// Bytes that are not yet sent. If a layer could not send bytes, the next call must pass them at the same address, so
/// new bytes wait in a second buffer.
#[derive(Debug, Default)]
pub(crate) struct Output {
    under_way: Vec<u8>,
    /// Number of bytes of `under_way` that are sent.
    sent: usize,
    waiting: Vec<u8>,
}

impl Output {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
    }

    /// Returns the number of bytes that are not yet sent.
    pub(crate) fn len(&self) -> usize {
        self.under_way.len() - self.sent + self.waiting.len()
    }

    /// Returns the next bytes to send; empty if nothing is pending.
    pub(crate) fn next(&mut self) -> &[u8] {
        if self.sent == self.under_way.len() {
            self.under_way.clear();
            self.sent = 0;
            mem::swap(&mut self.under_way, &mut self.waiting);
        }
        &self.under_way[self.sent..]
    }

    pub(crate) fn consumed(&mut self, count: usize) {
        self.sent = (self.sent + count).min(self.under_way.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claimed_length_allocates_no_memory() {
        let mut input = Input::default();
        let head = [SEQUENCE, 0x84, 0x0f, 0xff, 0, 0];
        input.room()[..head.len()].copy_from_slice(&head);
        input.fill(head.len());
        assert_eq!(input.next(), Ok(None));
        assert_eq!(input.memory.len(), READ_SIZE);
    }

    #[test]
    fn a_message_larger_than_the_buffer_is_complete() {
        let length = 5 * READ_SIZE;
        let mut input = Input::default();
        let mut sent = vec![SEQUENCE, 0x84];
        sent.extend_from_slice(&u32::try_from(length).unwrap().to_be_bytes());
        sent.extend((0..length).map(|at| u8::try_from(at % 251).unwrap()));
        let mut rest = sent.as_slice();
        while input.next().unwrap().is_none_or(|place| input.bytes(place) != sent) {
            let room = input.room();
            let count = room.len().min(rest.len());
            assert!(count > 0, "all bytes were read, but the message is incomplete");
            room[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
            input.fill(count);
        }
        assert!(rest.is_empty());
        input.room();
        assert_eq!(input.memory.len(), READ_SIZE);
    }
}
