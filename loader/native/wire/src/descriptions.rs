//! What is known of each attribute description, so that it is found out once and not once an entry.

use tree::{Description, Names};

use crate::{Error, Result};

/// More than any schema has; a server that sends more of them gets no more of our memory.
const MOST: usize = 10_000;

/// Entries that are alike send the same descriptions in the same order.
#[derive(Debug)]
pub(crate) struct Descriptions {
    drop: Names,
    ignore: Names,
    known: Vec<Description>,
    expected: usize,
    /// All descriptions of the entry so far stand before it.
    beyond: usize,
    /// Two that are known may be spellings of one.
    twins: bool,
}

impl Descriptions {
    pub(crate) fn new(drop: Names, ignore: Names) -> Self {
        Self { drop, ignore, known: Vec::new(), expected: 0, beyond: 0, twins: false }
    }

    /// Options included. An error where `text` is no description.
    #[inline]
    pub(crate) fn of(&mut self, text: &[u8]) -> Result<&Description> {
        let at = match self.known.get(self.expected) {
            Some(expected) if expected.text() == text => self.expected,
            _ => self.find(text)?,
        };
        self.expected = at + 1;
        Ok(&self.known[at])
    }

    /// The same, and whether it comes later than all before it in the usual order: then it is none of those.
    #[inline]
    pub(crate) fn next(&mut self, text: &[u8], first: bool) -> Result<(&Description, bool)> {
        if first {
            self.beyond = 0;
        }
        self.of(text)?;
        let at = self.expected - 1;
        let new = at >= self.beyond && !self.twins;
        self.beyond = self.beyond.max(at + 1);
        Ok((&self.known[at], new))
    }

    fn find(&mut self, text: &[u8]) -> Result<usize> {
        if let Some(at) = self.known.iter().position(|known| known.text() == text) {
            return Ok(at);
        }
        if self.known.len() == MOST {
            self.known.clear();
            self.twins = true; // In an entry that goes on, numbers mean nothing any more.
        }
        let new = self.learn(text)?;
        self.twins |= self.known.iter().any(|known| known.hash == new.hash);
        self.known.push(new);
        Ok(self.known.len() - 1)
    }

    fn learn(&self, text: &[u8]) -> Result<Description> {
        Description::learn(text, &self.drop, &self.ignore).ok_or_else(|| {
            let name = text.escape_ascii().to_string();
            Error::protocol(format!("\"{name}\" is no attribute description"))
        })
    }
}
