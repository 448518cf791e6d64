//! Reads dn2i in the order of entry IDs.

use codec::dn2i::{self, Node};
use lmdbfile::{Cursor, TableReader};

use crate::{Error, Result};

/// Reads the first record of each node, which holds its RDN and its parent's ID, and skips the records of its children.
#[derive(Debug)]
pub(crate) struct Nodes<'r> {
    cursor: Cursor<'r>,
    id: Option<u64>,
    record: Vec<u8>,
}

impl<'r> Nodes<'r> {
    pub(crate) fn new(dn2i: &TableReader<'r>) -> Result<Self> {
        let cursor = dn2i.cursor()?;
        Ok(Self { cursor, id: None, record: Vec::new() })
    }

    /// Returns the node `id`. This needs no search of the B+tree if `id` is the next key of the table.
    pub(crate) fn find(&mut self, id: u64) -> Result<Node<'_>> {
        if self.id.is_some_and(|here| here < id) {
            self.cursor.skip();
            self.take()?;
        }
        if self.id != Some(id) {
            self.cursor.seek(&id.to_ne_bytes())?;
            self.take()?;
        }
        let own = (self.id == Some(id)).then(|| dn2i::read(&self.record)).flatten();
        own.filter(|own| own.child.is_none()).ok_or_else(|| missing(id))
    }

    fn take(&mut self) -> Result<()> {
        self.id = None;
        self.record.clear();
        if let Some((key, record)) = self.cursor.next()? {
            self.id = codec::id::read(key);
            self.record.extend_from_slice(record);
        }
        Ok(())
    }
}

fn missing(id: u64) -> Error {
    Error::damaged(format!("entry {id} has no record of its own (table dn2i)"))
}
