//! What a walk through one tree has to remember.

use super::TableReader;
use super::cursor::table_record;
use super::path::OUT_OF_ORDER;
use super::view::{Kind, View};
use crate::{Error, Flags, Order, Result, Table};

/// One tree, and what was seen of it so far.
pub(crate) struct Tree<'r> {
    pub table: TableReader<'r>,
    /// The record of this tree, which may be that of one key's values.
    pub record: Table,
    pub order: Order,
    /// Size of every value, for trees of such values.
    pub kind: Kind,
    pub values_of_a_key: bool,
    pub seen: Table,
    /// What the next key must not be below: the last key, or the separator after it.
    pub floor: Vec<u8>,
    /// The floor itself may come.
    pub inclusive: bool,
}

impl<'r> Tree<'r> {
    pub fn new(table: TableReader<'r>, record: Table, order: Order, kind: Kind) -> Self {
        // Told rather than counted; an empty tree must be told as one.
        let Table { pad, flags, depth, root, .. } = record;
        let seen = Table { pad, depth, root, ..Table::empty(flags) };
        let (floor, inclusive, values_of_a_key) = (Vec::new(), true, false);
        Self { table, record, order, kind, values_of_a_key, seen, floor, inclusive }
    }

    /// What its record should tell.
    pub fn expected_record(&self) -> Table {
        told(&self.record, &self.seen, self.values_of_a_key)
    }

    pub fn set_floor(&mut self, key: &[u8], inclusive: bool) {
        self.floor.clear();
        self.floor.extend_from_slice(key);
        self.inclusive = inclusive;
    }

    pub fn check_floor(&self, number: u64, key: &[u8]) -> Result<()> {
        let above = self.order.compare(&self.floor, key);
        if self.floor.is_empty() || above.is_lt() || (above.is_eq() && self.inclusive) {
            return Ok(());
        }
        Err(Error::corrupt(number, OUT_OF_ORDER))
    }
}

/// What the record of a tree should tell. Since LMDB 0.9.36 (OpenLDAP 2.6.14) that of a table with DUPSORT counts the pages of
/// its keys' trees, too, but only as they change (`mdb_subdb_adjust`): on a file that is older than the program these numbers
/// mean nothing.
pub(crate) fn told(record: &Table, seen: &Table, values_of_a_key: bool) -> Table {
    if values_of_a_key || !record.flags.contains(Flags::DUPSORT) {
        return *record;
    }
    let Table { branch_pages, leaf_pages, overflow_pages, .. } = *seen;
    Table { branch_pages, leaf_pages, overflow_pages, ..*record }
}

/// The record of the tree in which a key's values are.
pub(crate) fn value_record(data: &[u8], flags: Flags, number: u64) -> Result<Table> {
    let record = table_record(data, number)?;
    let fixed = flags.contains(Flags::DUPFIXED);
    if record.flags != flags.of_values() || (record.pad > 0) != fixed || record.entries == 0 {
        return Err(Error::corrupt(number, "a record that does not fit the values of its table"));
    }
    Ok(record)
}

/// What the leaves of that tree hold.
pub(crate) fn values_kind(record: &Table) -> Kind {
    match record.pad as usize {
        0 => Kind::Leaf,
        size => Kind::Leaf2(size),
    }
}

/// The values of a key of a table with these flags, where they stand with it on the leaf `number`.
pub(crate) fn values_beside(view: &View, at: usize, flags: Flags, number: u64) -> Result<View> {
    let values = view.sub_page(at).map_err(|what| Error::corrupt(number, what))?;
    let fixed = matches!(values.kind, Kind::Leaf2(_));
    if values.kind == Kind::Branch || fixed != flags.contains(Flags::DUPFIXED) {
        return Err(Error::corrupt(number, "a sub-page of another kind than its table wants"));
    }
    Ok(values)
}

pub(crate) fn other_counts(record: &Table) -> Error {
    Error::corrupt(record.root, "a record with other counts than those of its tree")
}
