//! A file read with nothing taken on trust: damage gives errors, never a panic or an endless loop.

mod cursor;
mod cuts;
mod leaf;
mod open;
mod path;
mod runs;
mod seen;
mod store;
mod tree;
mod view;
mod walk;

use std::collections::BTreeMap;

pub use cursor::Cursor;
pub(crate) use cursor::table_record;
use leaf::Orders;
pub(crate) use path::OUT_OF_ORDER;
pub(crate) use runs::Runs;
pub use seen::Seen;
use store::BlockCache;
pub(crate) use tree::{other_counts, told, value_record, values_beside, values_kind};
pub(crate) use view::{Kind, View};
pub use walk::{PageKind, PageUsage, PageUse};

use crate::meta::Meta;
use crate::{Flags, Layout, Order, Result, Table};

/// A snapshot of a file. Its pages must stay as they are meanwhile: nobody writes, or a reader's slot is held.
#[derive(Debug)]
pub struct Reader {
    pub(crate) store: BlockCache,
    pub(crate) meta: Meta,
    tables: BTreeMap<Vec<u8>, NamedTable>,
}

/// A table of the file.
#[derive(Debug, Clone)]
struct NamedTable {
    /// For messages.
    name: String,
    record: Table,
    key_order: Order,
    value_order: Order,
}

/// One table, to be looked into.
#[derive(Debug, Clone, Copy)]
pub struct TableReader<'r> {
    store: &'r BlockCache,
    name: &'r str,
    record: Table,
    key_order: Order,
    value_order: Order,
}

impl Reader {
    pub fn layout(&self) -> Layout {
        self.store.layout
    }

    /// The size in bytes that LMDB may let the file grow to.
    pub fn map_size(&self) -> u64 {
        self.meta.map_size
    }

    /// Pages up to the last in use, the meta pages among them.
    pub fn pages(&self) -> u64 {
        self.meta.last_page + 1
    }

    /// The transaction whose snapshot this is.
    pub fn txn(&self) -> u64 {
        self.meta.txn
    }

    /// Whether all pages are in the file; those at its end may rightly be missing while they are free.
    pub fn is_whole(&self) -> bool {
        self.store.pages == self.pages()
    }

    /// The records of the table of free pages and of the main table, which meta pages have.
    pub fn system_tables(&self) -> [Table; 2] {
        [self.meta.free, self.meta.main]
    }

    /// The names of all tables, in order.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.tables.keys().map(Vec::as_slice)
    }

    /// For a table whose owner gave LMDB comparison functions of its own.
    pub fn set_orders(&mut self, name: &[u8], key_order: Order, value_order: Order) {
        if let Some(table) = self.tables.get_mut(name) {
            table.key_order = key_order;
            table.value_order = value_order;
        }
    }

    /// Those of a table's keys and values; of one that is not there, what its flags say.
    pub(crate) fn orders_of(&self, name: &[u8], flags: Flags) -> (Order, Order) {
        let name = self.store.layout.name(name);
        let known = self.tables.get(name).map(|table| (table.key_order, table.value_order));
        known.unwrap_or((flags.key_order(), flags.value_order()))
    }

    /// All that come up in its tables.
    fn orders(&self) -> Orders {
        let mut orders = Orders::default();
        orders.add(Order::Bytes);
        orders.add(Order::Integer); // of the table of free pages
        for table in self.tables.values() {
            orders.add(table.key_order);
            orders.add(table.value_order);
        }
        orders
    }

    pub fn table(&self, name: &[u8]) -> Option<TableReader<'_>> {
        self.tables.get(name).map(|table| table.reader(&self.store))
    }
}

impl NamedTable {
    /// With the orders that follow from its flags.
    fn new(name: &[u8], record: Table) -> Self {
        let (key_order, value_order) = (record.flags.key_order(), record.flags.value_order());
        Self { name: name.escape_ascii().to_string(), record, key_order, value_order }
    }

    fn reader<'r>(&'r self, store: &'r BlockCache) -> TableReader<'r> {
        let Self { name, record, key_order, value_order } = self;
        let (key_order, value_order) = (*key_order, *value_order);
        TableReader { store, name, record: *record, key_order, value_order }
    }
}

impl<'r> TableReader<'r> {
    pub fn record(&self) -> Table {
        self.record
    }

    /// Before the first key.
    pub fn cursor(&self) -> Result<Cursor<'r>> {
        Cursor::new(*self).map_err(|error| error.of_table(self.name))
    }

    /// The first value of the key.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut cursor = self.cursor()?;
        if !cursor.seek(key)? {
            return Ok(None);
        }
        Ok(cursor.next()?.map(|(_, value)| value.to_vec()))
    }

    /// All values of the key, in order.
    pub fn get_all(&self, key: &[u8]) -> Result<Vec<Vec<u8>>> {
        let (mut cursor, mut values) = (self.cursor()?, Vec::new());
        if cursor.seek(key)? {
            while let Some((_, value)) = cursor.next()?.filter(|(found, _)| *found == key) {
                values.push(value.to_vec());
            }
        }
        Ok(values)
    }

    /// The value of the key that is equal to `like` by the order of values, whatever else stands in it.
    pub fn find(&self, key: &[u8], like: &[u8]) -> Result<Option<Vec<u8>>> {
        self.cursor()?.find(key, like)
    }

    /// The first value of the key, and how many it has.
    pub fn counted(&self, key: &[u8]) -> Result<Option<(Vec<u8>, u64)>> {
        self.cursor()?.counted(key)
    }

    /// The greatest key.
    pub fn last_key(&self) -> Result<Option<Vec<u8>>> {
        self.cursor()?.last_key()
    }

    /// Whether the key has the value.
    pub fn contains(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.cursor()?.has(key, value)
    }
}
