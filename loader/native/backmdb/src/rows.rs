//! Writes the table id2v: the values of attributes with more values than `multival` allows in id2e.

use codec::{id2v, tables};
use extsort::Spool;
use lmdbfile::{FileWriter, Table};

use crate::Result;
use crate::numbering::Numbering;

/// A spooled row.
pub(crate) struct MultivalRow<'a> {
    pub position: u32,
    /// Number of the attribute in ad2i.
    pub column: u16,
    pub record: &'a [u8],
}

impl<'a> MultivalRow<'a> {
    pub fn read(row: &'a [u8]) -> Self {
        let (head, record) = row.split_at(6);
        let position = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        Self { position, column: u16::from_le_bytes([head[4], head[5]]), record }
    }
}

/// Writes the table from spooled rows, which are in the order of IDs.
pub(crate) fn write(file: &mut FileWriter, rows: &Spool, numbering: &Numbering) -> Result<Table> {
    let mut tree = tables::ID2V.writer(file.layout());
    let (mut reader, mut open) = (rows.reader(), None);
    while let Some(row) = reader.next()? {
        let row = MultivalRow::read(row);
        let Some(id) = numbering.id(row.position) else { continue };
        let key = id2v::key(id, row.column);
        if open.as_ref() != Some(&key) {
            if open.is_some() {
                tree.end(file)?;
            }
            tree.begin(&key)?;
            open = Some(key);
        }
        tree.dup(file, row.record)?;
    }
    if open.is_some() {
        tree.end(file)?;
    }
    Ok(tree.finish(file)?)
}
