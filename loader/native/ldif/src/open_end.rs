//! Accepts an uncompressed file of known length whose last line has no line end, as slapadd does.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use memchr::memrchr;

use crate::tail::STAMPS;
use crate::{Code, Counters, Error};

/// A line with more bytes cannot be one of [`STAMPS`].
const LONGEST_STAMP: usize = 256;

/// Adds a missing line end to the last line, and reports it to `counters`.
pub(crate) struct LineEnder<'a, R> {
    reader: R,
    path: PathBuf,
    counters: &'a Counters,
    /// The bytes read of the current line, at most `LONGEST_STAMP` + 1.
    line: Vec<u8>,
}

impl<'a, R: Read> LineEnder<'a, R> {
    pub(crate) fn new(reader: R, path: &Path, counters: &'a Counters) -> Self {
        Self { reader, path: path.to_path_buf(), counters, line: Vec::new() }
    }

    fn pass(&mut self, bytes: &[u8]) {
        let begin = memrchr(b'\n', bytes).map_or(0, |newline| {
            self.line.clear();
            newline + 1
        });
        let room = (LONGEST_STAMP + 1).saturating_sub(self.line.len());
        self.line.extend(bytes[begin..].iter().take(room));
    }

    fn end_line(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.line.is_empty() || buffer.is_empty() {
            return Ok(0);
        }
        if is_cut_stamp(&self.line) {
            return Err(Error::new(Code::Truncated, "the last line has no end").into());
        }
        self.line.clear();
        self.counters.ended_line(&self.path);
        buffer[0] = b'\n';
        Ok(1)
    }
}

impl<R: Read> Read for LineEnder<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        if count == 0 {
            return self.end_line(buffer);
        }
        self.pass(&buffer[..count]);
        Ok(count)
    }
}

/// Whether the line is an incomplete stamp. A server's entry has its stamps in its last lines.
fn is_cut_stamp(line: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(line) else { return false };
    let Some((name, value)) = text.split_once(':') else { return false };
    let value = value.trim();
    STAMPS.iter().position(|stamp| name.eq_ignore_ascii_case(stamp)).is_some_and(|stamp| {
        let hex = value.rsplit('#').next().unwrap_or("");
        let whole = [hex.len() == 6 && value.matches('#').count() == 3, value.ends_with('Z')];
        !whole[stamp]
    })
}
