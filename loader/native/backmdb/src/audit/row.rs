//! An index table, read row by row: the IDs of one key after the other, or the range of a key.

use codec::idl::{self, IndexRecord};
use lmdbfile::{Cursor, TableReader};

use super::ahead::StopReason;
use super::findings::Finding;

/// The postings of an index, the next in hand.
#[derive(Debug)]
pub struct IndexRecords<'r> {
    cursor: Cursor<'r>,
    name: &'r str,
    key: Vec<u8>,
    id: u64,
    /// There is one in hand.
    live: bool,
    /// The one in hand is the first of its key.
    first: bool,
}

impl<'r> IndexRecords<'r> {
    pub fn new(table: &TableReader<'r>, name: &'r str) -> Result<Self, StopReason> {
        let (cursor, key) = (table.cursor()?, Vec::new());
        let mut rows = Self { cursor, name, key, id: 0, live: true, first: true };
        rows.step()?;
        rows.first = true;
        Ok(rows)
    }

    /// The key of the posting in hand.
    pub fn key(&self) -> Option<&[u8]> {
        self.live.then_some(self.key.as_slice())
    }

    /// What stands under the key in hand, whose first posting that is. A range is passed.
    pub fn begin(&mut self) -> Result<IndexRecord, StopReason> {
        self.first = false;
        idl::begin(self.id, || self.another())
    }

    /// The ID in hand, while it is of the same key.
    pub fn id(&self) -> Option<u64> {
        (self.live && !self.first).then_some(self.id)
    }

    /// On to the next, which is told if it is of the same key.
    pub fn another(&mut self) -> Result<Option<u64>, StopReason> {
        if self.id().is_some() {
            self.step()?;
        }
        Ok(self.id())
    }

    fn step(&mut self) -> Result<(), StopReason> {
        let Some((key, value)) = self.cursor.next()? else {
            self.live = false;
            return Ok(());
        };
        let Some(id) = codec::id::read(value) else {
            let what = format!("a posting of {} bytes where all have 8", value.len());
            return Err(StopReason::damage(Finding::new(what).of_table(self.name)));
        };
        self.id = id;
        self.first = key != self.key;
        if self.first {
            self.key.clear();
            self.key.extend_from_slice(key);
        }
        Ok(())
    }
}
