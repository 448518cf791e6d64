//! Divides a byte stream into blocks of whole records.

use std::io::{ErrorKind, Read};

use memchr::{Memchr, memrchr_iter};

use crate::{Code, Error, Result};

/// Size of a block in bytes: large enough to hide the cost of a system call, small enough for the second-level cache.
pub const BLOCK_SIZE: usize = 512 * 1024;

/// Maximum size of a record in bytes; an input with a larger record is probably not LDIF.
pub const MAX_RECORD: usize = 256 * 1024 * 1024;

/// Divides a stream into blocks. Uses the memory of one block, or of the largest record if that is larger.
#[derive(Debug)]
pub struct Blocks<R> {
    source: R,
    /// The first `filled` bytes are input, the rest is old data: clearing the rest would cost as much as reading.
    buffer: Vec<u8>,
    filled: usize,
    /// Number of bytes at the beginning of `buffer` that the last call returned.
    returned: usize,
    line: u64,
    begun: bool,
    ended: bool,
    block_size: usize,
    max_record: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block<'a> {
    pub bytes: &'a [u8],
    /// Number of the block's first line, counted from 1.
    pub line: u64,
    /// Whether this is the last block of the input.
    pub last: bool,
}

impl<R: Read> Blocks<R> {
    pub fn new(source: R) -> Self {
        Self::with_sizes(source, BLOCK_SIZE, MAX_RECORD)
    }

    pub fn with_sizes(source: R, block_size: usize, max_record: usize) -> Self {
        Self {
            source,
            buffer: Vec::new(),
            filled: 0,
            returned: 0,
            line: 1,
            begun: false,
            ended: false,
            block_size,
            max_record,
        }
    }

    /// Returns the next block, or `None` at the end. Returns the error `Truncated` if the last line has no line end.
    pub fn next_block(&mut self) -> Result<Option<Block<'_>>> {
        self.discard_returned();
        let mut wanted = self.block_size;
        loop {
            self.fill(wanted)?;
            if !self.begun {
                expect_utf8(self.filled_bytes())?;
                self.begun = true;
            }
            if self.ended {
                return self.remainder();
            }
            if let Some(cut) = last_cut(self.filled_bytes()) {
                return Ok(Some(self.give(cut, false)));
            }
            if self.filled >= self.max_record {
                let limit = format!("a record of more than {} bytes", self.max_record);
                return Err(Error::new(Code::TooLarge, limit).at(self.line));
            }
            wanted = (wanted * 2).min(self.max_record);
        }
    }

    /// Moves the first `length` bytes of the last block out without copying. The next block begins at byte `resume` of
    /// that block, and uses the memory of `spare`.
    pub fn take(&mut self, length: usize, resume: usize, mut spare: Vec<u8>) -> Vec<u8> {
        self.line += count_lines(&self.buffer[..resume]);
        self.returned = 0;
        let rest = &self.buffer[resume..self.filled];
        self.filled = rest.len();
        spare.resize(spare.len().max(rest.len()), 0);
        spare[..rest.len()].copy_from_slice(rest);
        let mut block = std::mem::replace(&mut self.buffer, spare);
        block.truncate(length);
        block
    }

    fn filled_bytes(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }

    fn discard_returned(&mut self) {
        self.line += count_lines(&self.buffer[..self.returned]);
        self.buffer.copy_within(self.returned..self.filled, 0);
        self.filled -= self.returned;
        self.returned = 0;
    }

    fn fill(&mut self, wanted: usize) -> Result<()> {
        self.buffer.resize(self.buffer.len().max(wanted), 0);
        self.ended = false;
        while self.filled < wanted && !self.ended {
            match self.source.read(&mut self.buffer[self.filled..wanted]) {
                Ok(count) => (self.filled, self.ended) = (self.filled + count, count == 0),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    let error = Error::from(error);
                    let is_cut = error.code == Code::Truncated;
                    return Err(if is_cut { error.at(self.line_at_end()) } else { error });
                }
            }
        }
        Ok(())
    }

    fn remainder(&mut self) -> Result<Option<Block<'_>>> {
        match self.filled_bytes().last() {
            None => Ok(None),
            Some(b'\n') => Ok(Some(self.give(self.filled, true))),
            Some(_) => Err(Error::new(Code::Truncated, "the last line has no end").at(self.line_at_end())),
        }
    }

    fn line_at_end(&self) -> u64 {
        self.line + count_lines(self.filled_bytes())
    }

    fn give(&mut self, length: usize, last: bool) -> Block<'_> {
        self.returned = length;
        Block { bytes: &self.buffer[..length], line: self.line, last }
    }
}

/// Returns an error if the first bytes of the input indicate an encoding other than UTF-8.
fn expect_utf8(head: &[u8]) -> Result<()> {
    let what = match head {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => "this is UTF-32",
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [1..0x80, 0, 1..0x80, 0, ..] | [0, 1..0x80, 0, 1..0x80, ..] => {
            "this is UTF-16"
        }
        [0xef, 0xbb, 0xbf, ..] => "it begins with a byte order mark",
        _ => return Ok(()),
    };
    Err(Error::new(Code::Encoding, what).at(1))
}

pub(crate) fn count_lines(bytes: &[u8]) -> u64 {
    Memchr::new(b'\n', bytes).count() as u64
}

/// Returns the start of the last record that follows a blank line. At least one byte of this record has been read, so
/// the block before it is not the last block.
fn last_cut(bytes: &[u8]) -> Option<usize> {
    memrchr_iter(b'\n', bytes).find_map(|newline| {
        let after_blank = newline + 1 + line_end(&bytes[newline + 1..])?;
        begins_line(&bytes[after_blank..]).then_some(after_blank)
    })
}

/// Returns the length of the line end (LF or CRLF) with which `bytes` begins.
pub(crate) fn line_end(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [b'\n', ..] => Some(1),
        [b'\r', b'\n', ..] => Some(2),
        _ => None,
    }
}

/// Whether `bytes` begins with a line that is not blank. After a CR, a blank line is still possible.
fn begins_line(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes != b"\r" && line_end(bytes).is_none()
}
