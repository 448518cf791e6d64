//! A cursor that knows what comes next.

use lmdbfile::{Cursor, TableReader};

use crate::Result;

#[derive(Debug)]
pub struct PeekableCursor<'r> {
    cursor: Cursor<'r>,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    /// `key` and `value` are there.
    pub live: bool,
}

impl<'r> PeekableCursor<'r> {
    /// On the first key that is not below `key`; empty is the beginning.
    pub fn new(table: &TableReader<'r>, key: &[u8]) -> Result<Self> {
        let mut cursor = table.cursor()?;
        if !key.is_empty() {
            cursor.seek(key)?;
        }
        let mut peek = Self { cursor, key: Vec::new(), value: Vec::new(), live: false };
        peek.step()?;
        Ok(peek)
    }

    /// To the first key that is not below `key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.cursor.seek(key)?;
        self.step()
    }

    pub fn step(&mut self) -> Result<()> {
        let next = self.cursor.next()?;
        self.live = next.is_some();
        if let Some((key, value)) = next {
            if self.key != key {
                self.key.clear();
                self.key.extend_from_slice(key);
            }
            self.value.clear();
            self.value.extend_from_slice(value);
        }
        Ok(())
    }

    /// On a value of `key`.
    pub fn is_at(&self, key: &[u8]) -> bool {
        self.live && self.key == key
    }

    /// The key, or what begins it, as a number.
    pub fn id(&self) -> u64 {
        codec::id::first(&self.key).unwrap_or(0)
    }
}
