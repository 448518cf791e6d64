//! Reads a file without trusting it: damage leads to errors, never to a panic or an endless loop.

mod contents;
mod cursor;
mod open;
mod path;
mod rules;
mod store;
mod view;
mod walk;

use std::collections::BTreeMap;

pub use contents::Seen;
pub(crate) use contents::{Branch, Pointer, Within};
pub use cursor::{Cursor, KeyValues, Keys, Peekable};
pub(crate) use rules::{TreeRules, other_counts};
use store::BlockCache;
pub(crate) use view::{PageCheck, View};
pub(crate) use walk::Runs;
pub use walk::{PageKind, PageUsage, PageUse};

use crate::meta::Meta;
use crate::{Flags, Layout, Order, Result, Table};

/// A snapshot of a file. Its pages must not change: nobody writes, or a reader slot protects the snapshot.
#[derive(Debug)]
pub struct Reader {
    pub(crate) store: BlockCache,
    pub(crate) meta: Meta,
    tables: BTreeMap<Vec<u8>, NamedTable>,
}

#[derive(Debug, Clone)]
pub(crate) struct NamedTable {
    /// The name of the table in messages.
    name: String,
    record: Table,
    rules: TreeRules,
}

/// Read access to one table.
#[derive(Clone, Copy)]
pub struct TableReader<'r> {
    store: &'r BlockCache,
    name: &'r str,
    record: Table,
    rules: TreeRules,
}

impl Reader {
    pub fn layout(&self) -> Layout {
        self.store.source.layout
    }

    /// Returns the size in bytes up to which LMDB may let the file grow.
    pub fn map_size(&self) -> u64 {
        self.meta.map_size
    }

    /// Returns the number of pages up to the last page in use, including the meta pages.
    pub fn pages(&self) -> u64 {
        self.meta.last_page + 1
    }

    /// Returns the transaction number of the snapshot.
    pub fn txn(&self) -> u64 {
        self.meta.txn
    }

    /// Returns whether the file has all pages. It may lack the last pages if these are free.
    pub fn is_whole(&self) -> bool {
        self.store.source.pages == self.pages()
    }

    /// Returns the records of the table of free pages and of the main table, which are in the meta page.
    pub fn system_tables(&self) -> [Table; 2] {
        [self.meta.free, self.meta.main]
    }

    /// Returns the names of all tables, in order.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.tables.keys().map(Vec::as_slice)
    }

    /// Returns the name and the record of each table, in the order of the names.
    pub(crate) fn records(&self) -> impl Iterator<Item = (&[u8], Table)> {
        self.tables.iter().map(|(name, table)| (name.as_slice(), table.record))
    }

    /// Sets the orders of a table whose owner gives LMDB its own comparison functions.
    pub fn set_orders(&mut self, name: &[u8], key_order: Order, value_order: Order) {
        if let Some(table) = self.tables.get_mut(name) {
            table.rules = TreeRules::table(table.record.flags, key_order, value_order);
        }
    }

    /// Returns the rules of the table with this name, or the rules that `flags` imply if there is no such table.
    pub(crate) fn rules_of(&self, name: &[u8], flags: Flags) -> TreeRules {
        let table = self.tables.get(self.layout().name(name));
        table.map_or_else(|| TreeRules::of_flags(flags), |table| table.rules)
    }

    /// Returns all orders that occur in the tables.
    fn orders(&self) -> Vec<Order> {
        let mut orders = vec![Order::Bytes, Order::Integer]; // `Integer` is that of the table of free pages.
        let tables = self.tables.values().map(|table| table.rules.orders());
        for order in tables.flat_map(|orders| orders.keys.iter().chain(orders.values)) {
            if !orders.iter().any(|listed| listed.is(*order)) {
                orders.push(*order);
            }
        }
        debug_assert!(orders.len() <= 32, "`Ascending` has 32 bits");
        orders
    }

    pub fn table(&self, name: &[u8]) -> Option<TableReader<'_>> {
        self.tables.get(name).map(|table| table.reader(&self.store))
    }
}

impl NamedTable {
    /// Uses the orders that the table's flags imply.
    fn new(name: &[u8], record: Table) -> Self {
        let rules = TreeRules::of_flags(record.flags);
        Self { name: name.escape_ascii().to_string(), record, rules }
    }

    pub(crate) fn reader<'r>(&'r self, store: &'r BlockCache) -> TableReader<'r> {
        TableReader { store, name: &self.name, record: self.record, rules: self.rules }
    }
}

impl<'r> TableReader<'r> {
    pub fn record(&self) -> Table {
        self.record
    }

    /// Returns a cursor before the first key.
    pub fn cursor(&self) -> Result<Cursor<'r>> {
        Cursor::new(*self).map_err(|error| error.of_table(self.name))
    }

    /// Returns the first value of the key.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut cursor = self.cursor()?;
        if !cursor.seek(key)? {
            return Ok(None);
        }
        Ok(cursor.next()?.map(|(_, value)| value.to_vec()))
    }

    /// Returns all values of the key, in order.
    pub fn get_all(&self, key: &[u8]) -> Result<Vec<Vec<u8>>> {
        let (mut cursor, mut values) = (self.cursor()?, Vec::new());
        if cursor.seek(key)? {
            while let Some((_, value)) = cursor.next()?.filter(|(found, _)| *found == key) {
                values.push(value.to_vec());
            }
        }
        Ok(values)
    }

    /// Finds the value of the key `key` that compares as equal to `like`, even if the bytes of the two differ.
    pub fn find(&self, key: &[u8], like: &[u8]) -> Result<Option<Vec<u8>>> {
        self.cursor()?.find(key, like)
    }

    /// Returns the first value of the key and the number of its values.
    pub fn counted(&self, key: &[u8]) -> Result<Option<(Vec<u8>, u64)>> {
        self.cursor()?.counted(key)
    }

    /// Returns the greatest key.
    pub fn last_key(&self) -> Result<Option<Vec<u8>>> {
        self.cursor()?.last_key()
    }

    /// Returns whether the key has the value.
    pub fn contains(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        Ok(self.find(key, value)?.is_some_and(|found| found == value))
    }

    /// Returns ascending keys that divide the table into parts of similar size; the first part ends at the first key.
    /// The keys are from the highest level of branches that has at least `wanted` keys, or else from the lowest level.
    pub fn cuts(&self, wanted: usize) -> Result<Vec<Vec<u8>>> {
        self.find_cuts(wanted).map_err(|error| error.of_table(self.name))
    }

    fn find_cuts(&self, wanted: usize) -> Result<Vec<Vec<u8>>> {
        self.record.check_depth()?;
        let (mut keys, mut pages) = (Vec::new(), vec![self.record.root]);
        for _ in 1..self.record.depth {
            if keys.len() >= wanted {
                break;
            }
            (keys, pages) = self.level_below(&keys, &pages)?;
        }
        Ok(keys)
    }

    /// Returns the keys between the children of the branches `pages`, and these children. `keys` are the keys between
    /// `pages`.
    fn level_below(&self, keys: &[Vec<u8>], pages: &[u64]) -> Result<(Vec<Vec<u8>>, Vec<u64>)> {
        let (mut below, mut children) = (Vec::new(), Vec::new());
        for (at, &page) in pages.iter().enumerate() {
            // The first key of a branch has no meaning, so the key in the branch above is used.
            let from = at.checked_sub(1).map(|before| &keys[before]);
            let within = Within { from, to: keys.get(at) };
            let branch = self.rules.branch(page, &self.store.view(page)?, within.borrowed())?;
            below.extend(from.cloned());
            below.extend((1..branch.len()).map(|at| branch.key(at).to_vec()));
            children.extend(branch.children());
        }
        Ok((below, children))
    }
}
