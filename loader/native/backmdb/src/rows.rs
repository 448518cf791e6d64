//! The table id2v: values of attributes that have many (`multival`).

use std::cmp::Ordering;

use extsort::Spool;
use lmdbfile::{FileWriter, Flags, Table, TreeWriter};

use crate::numbering::Numbering;
use crate::{Result, sorting, writing};

/// Keys are an ID and the number of an attribute, both of the machine's byte order.
pub fn compare_keys(left: &[u8], right: &[u8]) -> Ordering {
    let parts = |key: &[u8]| {
        let (id, number) = key.split_first_chunk::<8>()?;
        Some((u64::from_ne_bytes(*id), u16::from_ne_bytes(number.try_into().ok()?)))
    };
    parts(left).cmp(&parts(right))
}

/// The normal form and the value of a row; they are one where its attribute has no normal forms. `None` when it is
/// something else.
pub fn read(row: &[u8]) -> Option<(&[u8], &[u8])> {
    let (rest, length) = row.split_last_chunk::<2>()?;
    let length = usize::from(u16::from_le_bytes(*length));
    let rest = rest.strip_suffix(b"\0")?;
    if length == 0 {
        return Some((rest, rest));
    }
    let (normal, value) = rest.split_at_checked(rest.len().checked_sub(length)?)?;
    Some((normal.strip_suffix(b"\0")?, value))
}

/// Writes the table from rows of position, column and record, in the order of IDs.
pub(crate) fn write(file: &mut FileWriter, rows: &Spool, numbering: &Numbering) -> Result<Table> {
    let mut tree = TreeWriter::new(Flags::DUPSORT, file.layout()).in_own_order();
    let (mut reader, mut open) = (rows.reader(), None);
    while let Some(row) = reader.next().map_err(sorting)? {
        let (place, record) = row.split_at(6);
        let position = u32::from_le_bytes([place[0], place[1], place[2], place[3]]);
        let Some(id) = numbering.id(position) else { continue };
        let key = [&id.to_ne_bytes()[..], &place[4..]].concat();
        if open.as_ref() != Some(&key) {
            if open.is_some() {
                tree.end(file).map_err(writing)?;
            }
            tree.begin(&key).map_err(writing)?;
            open = Some(key);
        }
        tree.dup(file, record).map_err(writing)?;
    }
    if open.is_some() {
        tree.end(file).map_err(writing)?;
    }
    tree.finish(file).map_err(writing)
}
