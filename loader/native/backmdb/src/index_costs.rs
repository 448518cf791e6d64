//! Measures the index tables of a database: pages, keys, IDs, and keys whose IDs became ranges.

use std::path::Path;

use codec::tables;
use common::{Counters, Result};
use lmdbfile::{KeyValues, Reader, TableReader};

/// The costs of one attribute's index. All its kinds of keys share a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IndexCost {
    pub name: String,
    /// Pages of the table, including the sub-databases with the IDs of a key.
    pub pages: u64,
    pub keys: u64,
    /// Number of the table's values: one for each ID in a list, and three for each range.
    pub records: u64,
    /// Number of keys with a range.
    pub ranges: u64,
}

/// The costs of all indexes of a database, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexCosts {
    pub page_size: usize,
    /// Pages of the file up to the last page in use.
    pub pages: u64,
    pub tables: Vec<IndexCost>,
}

/// Returns the costs in the snapshot of transaction `txn`, which a reader slot protects, or in a later snapshot.
pub fn index_costs(path: &Path, txn: u64, counters: &Counters) -> Result<IndexCosts> {
    let reader = tables::with_orders(Reader::open_at(path, Some(txn))?);
    let is_index = |name: &&[u8]| tables::ALL.iter().all(|table| table.name.as_bytes() != *name);
    let indexes = reader.names().filter(is_index).filter_map(|name| Some((name, reader.table(name)?)));
    let tables = indexes.map(|(name, table)| cost(name, table, counters)).collect::<Result<_>>()?;
    Ok(IndexCosts { page_size: reader.layout().page_size(), pages: reader.pages(), tables })
}

fn cost(name: &[u8], table: TableReader<'_>, counters: &Counters) -> Result<IndexCost> {
    let name = String::from_utf8_lossy(name).into_owned();
    let mut cost = IndexCost { name, pages: table.pages()?, ..IndexCost::default() };
    let mut keys = table.keys()?;
    while let Some(key) = keys.next()? {
        counters.check()?;
        cost.pages += key.pages;
        cost.keys += 1;
        cost.records += key.count;
        cost.ranges += u64::from(is_range(table, key)?);
    }
    Ok(cost)
}

/// Returns true if the first value is 0, which no list contains. A key with three values may still have the
/// sub-database of a longer list.
fn is_range(table: TableReader<'_>, key: KeyValues<'_>) -> Result<bool> {
    const BEGIN: &[u8] = &[0; 8];
    Ok(match key.first {
        Some(first) => first == BEGIN,
        None => key.count == 3 && table.get(key.key)?.as_deref() == Some(BEGIN),
    })
}
