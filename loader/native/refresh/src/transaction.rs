//! The tables of an environment in one write transaction, with the sort orders of back-mdb.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use backmdb::changes::Sink;
use codec::tables::DN2I;
use common::{Code, Error, Result};
use heed::types::Bytes;
use heed::{Comparator, Database, DefaultComparator, Env, MdbError, RoTxn, RwTxn, WithTls};

/// The order of values in dn2i: compares only the name at the beginning of each value.
enum Dn2idOrder {}

impl Comparator for Dn2idOrder {
    fn compare(left: &[u8], right: &[u8]) -> Ordering {
        DN2I.value_order.compare(left, right)
    }
}

#[derive(Debug, Clone, Copy)]
enum Table {
    Plain(Database<Bytes, Bytes>),
    Nodes(Database<Bytes, Bytes, DefaultComparator, Dn2idOrder>),
}

/// A write transaction. It begins when the first table is opened.
pub struct Transaction<'e> {
    env: &'e Env,
    /// Keeps LMDB from reusing pages of the snapshot from which the changes are computed.
    _reader: RoTxn<'e, WithTls>,
    allowed: Option<OwnedFd>,
    txn: Option<RwTxn<'e>>,
    tables: HashMap<String, Table>,
    open: Option<Table>,
}

impl<'e> Transaction<'e> {
    /// Nothing is written before a byte comes from `allowed`, which the caller sends after its own checks.
    pub fn new(env: &'e Env, allowed: OwnedFd) -> Result<Self> {
        let (reader, allowed) = (checked(env.read_txn())?, Some(allowed));
        Ok(Self { env, _reader: reader, allowed, txn: None, tables: HashMap::new(), open: None })
    }

    pub fn commit(self) -> Result<()> {
        self.txn.map_or(Ok(()), |txn| checked(txn.commit()))
    }

    fn table(&self, name: &str) -> Result<Table> {
        let missing = || Error::damaged(format!("the table {name} is missing"));
        let txn = self.txn.as_ref().ok_or_else(|| Error::damaged("no table is open"))?;
        let mut options = self.env.database_options().types::<Bytes, Bytes>();
        options.name(name);
        if name == DN2I.name {
            let mut options = options.dup_sort_comparator::<Dn2idOrder>();
            return checked(options.name(name).open(txn))?.map(Table::Nodes).ok_or_else(missing);
        }
        checked(options.open(txn))?.map(Table::Plain).ok_or_else(missing)
    }

    fn at(&mut self) -> Result<(Table, &mut RwTxn<'e>)> {
        let open = self.open.zip(self.txn.as_mut());
        open.ok_or_else(|| Error::damaged("no table is open"))
    }
}

impl Sink for Transaction<'_> {
    fn open(&mut self, name: &str) -> Result<()> {
        if self.txn.is_none() {
            let allowed = self.allowed.take().map(|allowed| File::from(allowed).read(&mut [0])).transpose()?;
            if allowed == Some(0) {
                return Err(Error::new(Code::Cancelled, "the caller did not allow it"));
            }
            rewrite_one_page(self.env)?;
            self.txn = Some(checked(self.env.write_txn())?);
        }
        let table = self.tables.get(name).copied().map_or_else(|| self.table(name), Ok)?;
        self.tables.insert(name.to_owned(), table);
        self.open = Some(table);
        Ok(())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        checked(match self.at()? {
            (Table::Plain(table), txn) => table.put(txn, key, value),
            (Table::Nodes(table), txn) => table.put(txn, key, value),
        })
    }

    fn remove(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let removed = match self.at()? {
            (Table::Plain(table), txn) => table.delete_one_duplicate(txn, key, value),
            (Table::Nodes(table), txn) => table.delete_one_duplicate(txn, key, value),
        };
        expect(removed)
    }

    fn clear(&mut self, key: &[u8]) -> Result<()> {
        let removed = match self.at()? {
            (Table::Plain(table), txn) => table.delete(txn, key),
            (Table::Nodes(table), txn) => table.delete(txn, key),
        };
        expect(removed)
    }
}

/// Commits a transaction that rewrites an unchanged record of ad2i. This adds a record to LMDB's table of free pages,
/// which LMDB does not use while an earlier read transaction is open.
///
/// Without that record, LMDB 0.9.70 may crash at the end of a large transaction: it replaces the only record of the
/// table of free pages by a longer record, and meanwhile looks for free pages in the same table, whose page has no
/// record then (`mdb_page_alloc`, called by `mdb_freelist_save` through `mdb_cursor_put`). Compacted files have an
/// empty table.
pub fn rewrite_one_page(env: &Env) -> Result<()> {
    let mut txn = checked(env.write_txn())?;
    let mut options = env.database_options().types::<Bytes, Bytes>();
    options.name("ad2i");
    if let Some(table) = checked(options.open(&txn))? {
        let record = checked(table.first(&txn))?.map(|(key, value)| (key.to_vec(), value.to_vec()));
        if let Some((key, value)) = record {
            checked(table.put(&mut txn, &key, &value))?;
        }
    }
    checked(txn.commit())
}

/// Fails unless the value existed and was removed.
fn expect(removed: heed::Result<bool>) -> Result<()> {
    if checked(removed)? {
        return Ok(());
    }
    Err(Error::damaged("a table lacks a value that its entries require: run `ditseed verify`"))
}

/// Converts an error of LMDB. `heed::Error::Io` is an error of the operating system.
pub fn checked<T>(done: heed::Result<T>) -> Result<T> {
    done.map_err(|error| match error {
        heed::Error::Io(error) => error.into(),
        heed::Error::Mdb(MdbError::MapFull) => Error::new(Code::Full, "the map is full"),
        other => Error::damaged(format!("LMDB says: {other}")),
    })
}
