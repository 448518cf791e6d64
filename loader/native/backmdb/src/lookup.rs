//! From attribute descriptions as LDIF spells them to columns, without asking twice.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use values::InvalidValue;

use crate::descriptions::{AttributeDescription, AttributeDescriptions};

/// Spellings kept in mind; more are looked up again.
const SPELLINGS: usize = 65_536;

#[derive(Debug)]
pub struct Lookup<'a> {
    all: &'a AttributeDescriptions<'a>,
    columns: Vec<Arc<AttributeDescription>>,
    spelled: FxHashMap<Box<[u8]>, usize>,
    /// The columns of the last entry's lines, and the place among them: entries often are alike.
    sequence: Vec<(Box<[u8]>, usize)>,
    at: usize,
}

impl<'a> Lookup<'a> {
    pub fn new(all: &'a AttributeDescriptions<'a>) -> Self {
        let (columns, spelled) = (Vec::new(), FxHashMap::default());
        Self { all, columns, spelled, sequence: Vec::new(), at: 0 }
    }

    /// The description, as it was spelled, and the column that the entry before had in the place of the next line.
    #[inline]
    pub fn expected(&self) -> Option<(&[u8], usize)> {
        self.sequence.get(self.at).map(|(spelling, column)| (&**spelling, *column))
    }

    /// The next line is as expected.
    #[inline]
    pub fn advance(&mut self) {
        self.at += 1;
    }

    /// Returns how the description of the last line was spelled, if that line was as expected.
    pub fn last_spelling(&self) -> &[u8] {
        self.at.checked_sub(1).and_then(|at| self.sequence.get(at)).map_or(b"", |(known, _)| known)
    }

    /// How many lines of the entry were looked up.
    #[inline]
    pub fn place(&self) -> usize {
        self.at
    }

    /// The next lines are another entry's.
    pub fn rewind(&mut self) {
        self.at = 0;
    }

    #[inline]
    pub fn get(&self, index: usize) -> &AttributeDescription {
        &self.columns[index]
    }

    /// The column of the next line's description.
    #[inline]
    pub fn next(&mut self, spelling: &[u8]) -> Result<usize, InvalidValue> {
        let expected = self.sequence.get(self.at).filter(|(known, _)| **known == *spelling);
        if let Some(&(_, column)) = expected {
            self.at += 1;
            return Ok(column);
        }
        let column = self.column(spelling)?;
        self.sequence.truncate(self.at);
        if self.sequence.len() < 1024 {
            self.sequence.push((spelling.into(), column));
        }
        self.at += 1;
        Ok(column)
    }

    pub fn column(&mut self, spelling: &[u8]) -> Result<usize, InvalidValue> {
        if let Some(&index) = self.spelled.get(spelling) {
            return Ok(index);
        }
        let found = self.all.column(spelling)?;
        let known = self.columns.iter().position(|column| Arc::ptr_eq(column, &found));
        let index = known.unwrap_or_else(|| {
            self.columns.push(found);
            self.columns.len() - 1
        });
        if self.spelled.len() < SPELLINGS {
            self.spelled.insert(spelling.into(), index);
        }
        Ok(index)
    }
}
