//! The table id2v: values of attributes that have many (`multival`).

use codec::{id2v, tables};
use extsort::Spool;
use lmdbfile::{FileWriter, Table};

use crate::Result;
use crate::numbering::Numbering;

/// Writes the table from rows of position, column and record, in the order of IDs.
pub(crate) fn write(file: &mut FileWriter, rows: &Spool, numbering: &Numbering) -> Result<Table> {
    let mut tree = tables::ID2V.writer(file.layout());
    let (mut reader, mut open) = (rows.reader(), None);
    while let Some(row) = reader.next()? {
        let (place, record) = row.split_at(6);
        let position = u32::from_le_bytes([place[0], place[1], place[2], place[3]]);
        let Some(id) = numbering.id(position) else { continue };
        let key = id2v::key(id, u16::from_le_bytes([place[4], place[5]]));
        if open.as_ref() != Some(&key) {
            if open.is_some() {
                tree.end(file)?;
            }
            tree.begin(&key)?;
            open = Some(key);
        }
        tree.dup(file, record)?;
    }
    if open.is_some() {
        tree.end(file)?;
    }
    Ok(tree.finish(file)?)
}
