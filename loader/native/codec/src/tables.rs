//! The tables of back-mdb: their flags, and the orders of their keys and values, as slapd sets them
//! (`servers/slapd/back-mdb`: init.c, id2entry.c, index.c).

use std::cmp::Ordering;

use lmdbfile::{Flags, Layout, Order, Reader, TreeWriter};

use crate::{dn2i, id2v};

/// A table other than an index.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    pub name: &'static str,
    pub flags: Flags,
    pub key_order: Order,
    pub value_order: Order,
    /// Whether databases of every slapd release have the table.
    pub required: bool,
}

/// Flags of an index, whose keys have entry IDs as values.
pub const INDEX: Flags = Flags::DUPFIXED.union(Flags::INTEGERDUP);

pub const AD2I: Table = Table::new("ad2i", Flags::INTEGERKEY);
pub const DN2I: Table =
    Table { value_order: Order::Custom(dn2i::compare), ..Table::new("dn2i", Flags::INTEGERKEY.union(Flags::DUPSORT)) };
pub const ID2E: Table = Table::new("id2e", Flags::INTEGERKEY);
pub const ID2V: Table = Table {
    key_order: Order::Custom(id2v::compare_keys),
    value_order: Order::Custom(in_any_order),
    required: false,
    ..Table::new("id2v", Flags::DUPSORT)
};
pub const IXCK: Table = Table { required: false, ..Table::new("ixck", Flags::INTEGERKEY) };

pub const ALL: [Table; 5] = [AD2I, DN2I, ID2E, ID2V, IXCK];

impl Table {
    const fn new(name: &'static str, flags: Flags) -> Self {
        let (key_order, value_order) = (flags.key_order(), flags.value_order());
        Self { name, flags, key_order, value_order, required: true }
    }

    /// Returns a writer for the table. It cannot check the value order of id2v; values of dn2i must ascend by bytes.
    pub fn writer(&self, layout: Layout) -> TreeWriter {
        let tree = TreeWriter::new(self.flags, layout);
        if matches!(self.key_order, Order::Custom(_)) { tree.in_own_order() } else { tree }
    }
}

/// Returns the flags of the table `name`; a table that is not in [`ALL`] is an index.
pub fn flags(name: &str) -> Flags {
    ALL.iter().find(|table| table.name == name).map_or(INDEX, |table| table.flags)
}

/// Returns a writer of the table `name`, as [`Table::writer`] does.
pub fn writer(name: &str, layout: Layout) -> TreeWriter {
    let table = ALL.iter().find(|table| table.name == name);
    table.map_or_else(|| TreeWriter::new(INDEX, layout), |table| table.writer(layout))
}

/// Sets the comparison functions of back-mdb's tables in a reader.
#[must_use]
pub fn with_orders(mut reader: Reader) -> Reader {
    for table in ALL {
        reader.set_orders(table.name.as_bytes(), table.key_order, table.value_order);
    }
    reader
}

/// Accepts values in any order: id2v has them in the order of the attribute's equality rule, which only the schema
/// shows.
fn in_any_order(left: &[u8], right: &[u8]) -> Ordering {
    if left == right { Ordering::Equal } else { Ordering::Less }
}
