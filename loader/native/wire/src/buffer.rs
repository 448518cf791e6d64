//! The two buffers of a connection: bytes that came and are not taken yet, and bytes still to go.

use std::mem;
use std::ops::Range;

use crate::Result;
use crate::ber::{SEQUENCE, frame};

/// Room for a read: many messages at once is what makes reading cheap.
const READ: usize = 512 * 1024;

/// A message larger than this is taken for something that is not LDAP.
pub const MAX_MESSAGE: usize = 256 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct Input {
    memory: Vec<u8>,
    filled: Range<usize>,
}

impl Input {
    pub(crate) fn new() -> Self {
        Self { memory: vec![0; READ], filled: 0..0 }
    }

    /// Takes out the next whole message, as a place for [`Self::bytes`] that holds until more is read.
    pub(crate) fn next(&mut self) -> Result<Option<Range<usize>>> {
        let waiting = &self.memory[self.filled.clone()];
        let Some(length) = frame(waiting, SEQUENCE, MAX_MESSAGE)? else { return Ok(None) };
        if length > waiting.len() {
            self.make_room(length);
            return Ok(None);
        }
        let start = self.filled.start;
        self.filled.start += length;
        Ok(Some(start..start + length))
    }

    pub(crate) fn bytes(&self, place: Range<usize>) -> &[u8] {
        &self.memory[place]
    }

    /// Where to read to; never empty.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.filled.is_empty() || self.filled.end == self.memory.len() {
            self.make_room(self.filled.len() + 1);
        }
        &mut self.memory[self.filled.end..]
    }

    pub(crate) fn fill(&mut self, count: usize) {
        self.filled.end = (self.filled.end + count).min(self.memory.len());
    }

    /// Moves what waits to the front, with room for `length` bytes in all. Memory that a large message
    /// took is given back.
    fn make_room(&mut self, length: usize) {
        if self.filled.start > 0 {
            self.memory.copy_within(self.filled.clone(), 0);
            self.filled = 0..self.filled.len();
        }
        let wanted = length.max(READ);
        if wanted > self.memory.len() {
            self.memory.resize(wanted.next_multiple_of(READ), 0);
        } else if self.filled.is_empty() && self.memory.len() > 4 * READ {
            self.memory = vec![0; READ];
        }
    }
}

/// Bytes that a layer refused must be offered again unmoved, so what is under way stays as it is and
/// what comes meanwhile waits behind it.
#[derive(Debug, Default)]
pub(crate) struct Output {
    under_way: Vec<u8>,
    gone: usize,
    waiting: Vec<u8>,
}

impl Output {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.gone == self.under_way.len() && self.waiting.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.under_way.len() - self.gone + self.waiting.len()
    }

    /// What goes next; empty when nothing is left.
    pub(crate) fn next(&mut self) -> &[u8] {
        if self.gone == self.under_way.len() {
            self.under_way.clear();
            self.gone = 0;
            mem::swap(&mut self.under_way, &mut self.waiting);
        }
        &self.under_way[self.gone..]
    }

    pub(crate) fn went(&mut self, count: usize) {
        self.gone = (self.gone + count).min(self.under_way.len());
    }
}
