//! What is known of each attribute description, so that it is found out once and not once an entry.

use ldif::write::{is_safe, line, line_in_base64};
use tree::Names;
use tree::fingerprint::{hash_text, hash_value};

use crate::{Error, Result};

/// Bytes that are copied for the beginning of a line, longer or not: a copy of known size is a few instructions.
const SHORT: usize = 32;

/// Values of an attribute that are remembered; of a group's members the next entry has none.
const PLACES: usize = 8;

/// So many other values in a row, and the attribute is taken for one that differs from entry to entry.
const MISSES: usize = 16;

/// More than any schema has; a server that sends more of them gets no more of our memory.
const MOST: usize = 10_000;

#[derive(Debug)]
pub(crate) struct Description {
    /// The text, `: `, and at least as many bytes as are copied.
    prefix: Vec<u8>,
    length: usize,
    /// The same for all spellings.
    pub(crate) hash: u64,
    /// Not wanted at all.
    pub(crate) dropped: bool,
    /// Does not count in fingerprints.
    pub(crate) ignored: bool,
    /// Stands in base64, so that nobody reads it in passing; so does slapcat's.
    veiled: bool,
    pub(crate) stamp: Option<Stamp>,
    /// By place among the attribute's values.
    usual: Vec<Usual>,
    /// Values in a row that were not the usual ones.
    misses: usize,
}

/// The last value at a place, which the next entry is likely to have too (`objectClass`, `creatorsName`), and what
/// was made of it.
#[derive(Debug, Default)]
struct Usual {
    value: Vec<u8>,
    line: Vec<u8>,
    hash: u128,
}

impl Description {
    pub(crate) fn text(&self) -> &[u8] {
        &self.prefix[..self.length]
    }

    /// Appends the line of the value at a place, and tells the value's hash.
    #[inline]
    pub(crate) fn record(&mut self, place: usize, value: &[u8], out: &mut Vec<u8>) -> u128 {
        if let Some(usual) = self.usual.get(place).filter(|usual| usual.value == value) {
            self.misses = 0;
            out.extend_from_slice(&usual.line);
            return usual.hash;
        }
        let start = out.len();
        self.line(value, out);
        let hash = hash_value(self.hash, value);
        if self.misses < MISSES && place < PLACES {
            self.remember(place, value, &out[start..], hash);
        }
        hash
    }

    fn remember(&mut self, place: usize, value: &[u8], line: &[u8], hash: u128) {
        self.misses += 1;
        if self.misses == MISSES {
            return self.usual.clear();
        }
        if self.usual.len() == place {
            self.usual.push(Usual::default());
        }
        let Some(usual) = self.usual.get_mut(place) else { return };
        usual.value.clear();
        usual.value.extend_from_slice(value);
        usual.line.clear();
        usual.line.extend_from_slice(line);
        usual.hash = hash;
    }

    /// Appends a line of LDIF.
    #[inline]
    pub(crate) fn line(&self, value: &[u8], out: &mut Vec<u8>) {
        if self.veiled || !is_safe(value) {
            return line_in_base64(out, self.text(), value);
        }
        if value.is_empty() {
            return line(out, self.text(), value);
        }
        let end = out.len() + self.length + 2;
        match self.prefix.first_chunk::<SHORT>() {
            Some(short) if self.length + 2 <= SHORT => out.extend_from_slice(short),
            _ => out.extend_from_slice(&self.prefix),
        }
        out.truncate(end);
        out.extend_from_slice(value);
        out.push(b'\n');
    }
}

/// Attributes that tell what an entry is, and where it belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stamp {
    EntryUuid,
    EntryCsn,
    HasSubordinates,
}

/// Entries that are alike send the same descriptions in the same order.
#[derive(Debug)]
pub(crate) struct Descriptions {
    drop: Names,
    ignore: Names,
    known: Vec<Description>,
    expected: usize,
    lower: Vec<u8>,
}

impl Descriptions {
    pub(crate) fn new(drop: Names, ignore: Names) -> Self {
        Self { drop, ignore, known: Vec::new(), expected: 0, lower: Vec::new() }
    }

    /// Options included. An error where `text` is no description.
    #[inline]
    pub(crate) fn of(&mut self, text: &[u8]) -> Result<&mut Description> {
        let at = match self.known.get(self.expected) {
            Some(expected) if expected.text() == text => self.expected,
            _ => self.find(text)?,
        };
        self.expected = at + 1;
        Ok(&mut self.known[at])
    }

    fn find(&mut self, text: &[u8]) -> Result<usize> {
        if let Some(at) = self.known.iter().position(|known| known.text() == text) {
            return Ok(at);
        }
        if self.known.len() == MOST {
            self.known.clear();
        }
        let new = self.learn(text)?;
        self.known.push(new);
        Ok(self.known.len() - 1)
    }

    fn learn(&mut self, text: &[u8]) -> Result<Description> {
        let mut prefix = [text, b": "].concat();
        prefix.resize(prefix.len().max(SHORT), 0);
        let letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"-;._".contains(byte);
        if text.is_empty() || !text.iter().all(letter) {
            let name = text.escape_ascii().to_string();
            return Err(Error::protocol(format!("\"{name}\" is no attribute description")));
        }
        let base = text.split(|&byte| byte == b';').next().unwrap_or_default();
        let is = |name: &[u8]| base.eq_ignore_ascii_case(name);
        Ok(Description {
            prefix,
            length: text.len(),
            hash: hash_text(text, &mut self.lower),
            dropped: self.drop.contain(base),
            ignored: self.ignore.contain(base),
            veiled: is(b"userPassword"),
            stamp: match () {
                () if is(b"entryUUID") => Some(Stamp::EntryUuid),
                () if is(b"entryCSN") => Some(Stamp::EntryCsn),
                () if is(b"hasSubordinates") => Some(Stamp::HasSubordinates),
                () => None,
            },
            usual: Vec::new(),
            misses: 0,
        })
    }
}
