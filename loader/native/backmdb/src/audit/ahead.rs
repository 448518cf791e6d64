//! A table that is read in step with others: the next record is in hand before it is asked for.

use lmdbfile::{Cursor, TableReader};

use super::findings::Finding;
use crate::Error;

/// IDs from `from` up to, but without, `to`.
#[derive(Debug, Clone, Copy)]
pub struct IdRange {
    pub from: u64,
    pub to: Option<u64>,
}

impl IdRange {
    pub fn has(&self, id: u64) -> bool {
        id >= self.from && self.to.is_none_or(|to| id < to)
    }
}

/// Why a table is not read to its end.
#[derive(Debug)]
pub enum StopReason {
    Damage(Box<Finding>),
    /// Nothing that the file is to blame for.
    Failed(Box<Error>),
}

impl StopReason {
    pub fn damage(finding: Finding) -> Self {
        Self::Damage(Box::new(finding))
    }
}

impl From<lmdbfile::Error> for StopReason {
    fn from(error: lmdbfile::Error) -> Self {
        if error.kind == lmdbfile::ErrorKind::Io {
            return Self::Failed(Box::new(error.into()));
        }
        Self::damage((&error).into())
    }
}

impl From<Error> for StopReason {
    fn from(error: Error) -> Self {
        Self::Failed(Box::new(error))
    }
}

/// The records of a table whose keys begin with an entry ID, within a span.
#[derive(Debug)]
pub struct TableRange<'r> {
    cursor: Cursor<'r>,
    name: &'static str,
    /// Bytes of a key: the ID, and what may follow it.
    size: usize,
    span: IdRange,
    id: Option<u64>,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

impl<'r> TableRange<'r> {
    pub fn new(
        table: TableReader<'r>,
        name: &'static str,
        size: usize,
        span: IdRange,
    ) -> Result<Self, StopReason> {
        let mut cursor = table.cursor()?;
        if span.from > 0 {
            let mut first = span.from.to_ne_bytes().to_vec();
            first.resize(size, 0);
            cursor.seek(&first)?;
        }
        let (key, value) = (Vec::new(), Vec::new());
        let mut found = Self { cursor, name, size, span, id: None, key, value };
        found.step()?;
        Ok(found)
    }

    /// Of the record in hand; `None` when there is none.
    pub fn id(&self) -> Option<u64> {
        self.id
    }

    /// On to the next record.
    pub fn step(&mut self) -> Result<(), StopReason> {
        self.id = None;
        let Some((key, value)) = self.cursor.next()? else { return Ok(()) };
        let Some(id) = key.first_chunk::<8>().filter(|_| key.len() == self.size) else {
            let what = format!("a key of {} bytes where all have {}", key.len(), self.size);
            return Err(StopReason::damage(Finding::new(what).of_table(self.name)));
        };
        let id = u64::from_ne_bytes(*id);
        if !self.span.has(id) {
            return Ok(());
        }
        self.id = Some(id);
        self.key.clear();
        self.key.extend_from_slice(key);
        self.value.clear();
        self.value.extend_from_slice(value);
        Ok(())
    }
}
