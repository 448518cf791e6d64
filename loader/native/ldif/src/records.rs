//! Finds the records in a block: the bytes of each, and the number of its first line.

use std::ops::Range;

use memchr::memchr;
use memchr::memmem::Finder;

use crate::blocks::{Block, count_lines, line_end};
use crate::{Code, Error, Result};

/// A record: whole lines with their line ends, without the blank line after the record, and without comments and the
/// `version:` line before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    pub bytes: &'a [u8],
    /// Number of the record's first line, counted from 1.
    pub line: u64,
    /// Whether a blank line follows, so that the record is complete.
    pub closed: bool,
    /// Whether this is the last record of the input.
    pub last: bool,
}

/// A line `include: file:///path` where a record could begin, as in OpenLDAP's tools (`ldif_read_record` in
/// `libraries/libldap/ldif.c`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Include {
    pub url: String,
    /// Number of the line, counted from 1.
    pub line: u64,
    /// Range of the line in the block.
    pub span: Range<usize>,
}

pub struct Records<'a> {
    rest: &'a [u8],
    line: u64,
    last_block: bool,
    /// Finds two consecutive LFs. `after_blank` is the number of bytes after the last match.
    blank: Finder<'static>,
    after_blank: usize,
    has_cr: bool,
    refuses_version: bool,
}

impl<'a> Records<'a> {
    pub fn new(block: &Block<'a>) -> Self {
        let (rest, line, last_block) = (block.bytes, block.line, block.last);
        let has_cr = memchr(b'\r', rest).is_some();
        let blank = Finder::new(b"\n\n");
        let (after_blank, refuses_version) = (usize::MAX, false);
        Self { rest, line, last_block, blank, after_blank, has_cr, refuses_version }
    }

    /// With `refuses`, a `version:` line is an error, as in slapadd.
    #[must_use]
    pub fn refusing_version(self, refuses: bool) -> Self {
        Self { refuses_version: refuses, ..self }
    }

    fn take_line(&mut self) -> &'a [u8] {
        let end = memchr(b'\n', self.rest).map_or(self.rest.len(), |newline| newline + 1);
        let (line, rest) = self.rest.split_at(end);
        self.rest = rest;
        self.line += 1;
        line
    }

    /// Skips the lines that may precede a record: blank lines, comments, `version: 1`.
    fn skip_to_record(&mut self) -> Result<()> {
        while let Some(&first) = self.rest.first() {
            let line = self.line;
            if line_end(self.rest).is_some() {
                self.take_line();
            } else if first == b'#' {
                self.take_folded();
            } else if is_version(self.rest) {
                if self.refuses_version {
                    let message = "slapadd does not accept `version:`";
                    return Err(Error::new(Code::Version, message).at(line));
                }
                expect_version_1(self.take_line()).map_err(|error| error.at(line))?;
            } else if let Some(url) = include(self.rest) {
                let message = format!("include: {url}: other files are not read");
                return Err(Error::new(Code::Include, message).at(line));
            } else {
                break;
            }
        }
        Ok(())
    }

    /// Returns the first `include:` line in a block.
    pub fn find_include(block: &Block<'a>) -> Option<Include> {
        let mut records = Self::new(block);
        while let Some(&first) = records.rest.first() {
            let start = block.bytes.len() - records.rest.len();
            let line = records.line;
            if line_end(records.rest).is_some() || is_version(records.rest) {
                records.take_line();
            } else if first == b'#' {
                records.take_folded();
            } else if let Some(url) = include(records.rest) {
                let span = start..start + records.take_line().len();
                return Some(Include { url, line, span });
            } else {
                records.take_record();
            }
        }
        None
    }

    fn take_folded(&mut self) {
        self.take_line();
        while self.rest.first() == Some(&b' ') {
            self.take_line();
        }
    }

    fn take_record(&mut self) -> Record<'a> {
        let line = self.line;
        let (bytes, rest) = self.rest.split_at(self.record_length());
        self.rest = rest;
        self.line += count_lines(bytes);
        let last = self.last_block && rest.iter().all(u8::is_ascii_whitespace);
        Record { bytes, line, closed: !rest.is_empty(), last }
    }

    /// Returns the number of bytes before the next empty line, which is between two LFs unless a line ends in CRLF.
    fn record_length(&mut self) -> usize {
        // Searches the next pair of LFs only once, even if many records before the pair end in CRLF.
        if self.after_blank >= self.rest.len() {
            let blank = self.blank.find(self.rest);
            self.after_blank = blank.map_or(0, |at| self.rest.len() - at - 1);
        }
        let length = self.rest.len() - self.after_blank;
        if !self.has_cr || memchr(b'\r', &self.rest[..length]).is_none() {
            return length;
        }
        let lines = self.rest.split_inclusive(|&byte| byte == b'\n');
        lines.take_while(|line| line_end(line).is_none()).map(<[u8]>::len).sum()
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Err(error) = self.skip_to_record() {
            self.rest = &[];
            return Some(Err(error));
        }
        (!self.rest.is_empty()).then(|| Ok(self.take_record()))
    }
}

fn is_version(line: &[u8]) -> bool {
    line.get(..8).is_some_and(|name| name.eq_ignore_ascii_case(b"version:"))
}

/// Returns the URL if `text` begins with an `include:` line.
fn include(text: &[u8]) -> Option<String> {
    let rest = text.get(..8).filter(|name| name.eq_ignore_ascii_case(b"include:"))?;
    let end = memchr(b'\n', text).unwrap_or(text.len());
    Some(String::from_utf8_lossy(text[rest.len()..end].trim_ascii()).into_owned())
}

fn expect_version_1(line: &[u8]) -> Result<()> {
    match line[8..].trim_ascii() {
        b"1" => Ok(()),
        other => {
            let text = String::from_utf8_lossy(other);
            Err(Error::new(Code::Version, format!("LDIF version {text} is not known; 1 is")))
        }
    }
}
