//! What is known of each attribute description, so that it is found out once and not once an entry.

use std::ops::Deref;

use tree::fingerprint::hash_value;
use tree::{Description, Names};

use crate::{Error, Result};

/// Values of an attribute that are remembered; of a group's members the next entry has none.
const PLACES: usize = 8;

/// So many other values in a row, and the attribute is taken for one that differs from entry to entry.
const MISSES: usize = 16;

/// More than any schema has; a server that sends more of them gets no more of our memory.
const MOST: usize = 10_000;

/// A description, and the values that the entries so far had under it.
#[derive(Debug)]
pub(crate) struct Known {
    description: Description,
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

impl Deref for Known {
    type Target = Description;

    fn deref(&self) -> &Description {
        &self.description
    }
}

impl Known {
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
}

/// Entries that are alike send the same descriptions in the same order.
#[derive(Debug)]
pub(crate) struct Descriptions {
    drop: Names,
    ignore: Names,
    known: Vec<Known>,
    expected: usize,
}

impl Descriptions {
    pub(crate) fn new(drop: Names, ignore: Names) -> Self {
        Self { drop, ignore, known: Vec::new(), expected: 0 }
    }

    /// Options included. An error where `text` is no description.
    #[inline]
    pub(crate) fn of(&mut self, text: &[u8]) -> Result<&mut Known> {
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
        let description = self.learn(text)?;
        self.known.push(Known { description, usual: Vec::new(), misses: 0 });
        Ok(self.known.len() - 1)
    }

    fn learn(&self, text: &[u8]) -> Result<Description> {
        Description::learn(text, &self.drop, &self.ignore).ok_or_else(|| {
            let name = text.escape_ascii().to_string();
            Error::protocol(format!("\"{name}\" is no attribute description"))
        })
    }
}
