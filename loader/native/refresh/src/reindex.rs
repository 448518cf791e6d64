//! Index tables of a database that no slapd has open made again: all of them are there afterwards, or what was before.

use std::path::Path;

use backmdb::postings::IndexWriter;
use backmdb::reindex::{self, IndexSink, Reindexed};
use backmdb::{Settings, VerifyMeans};
use common::{Counters, Error, Result};
use heed::types::Bytes;
use heed::{Database, DatabaseFlags, Env, PutFlags, RwTxn};
use schema::Schema;

use crate::DATA;
use crate::transaction::told;

/// Makes the indexes of `attributes` again in the database in an environment directory; durable when it returns.
pub fn reindex(
    directory: &Path,
    known: (&Schema, &Settings),
    attributes: &[String],
    means: &VerifyMeans,
    counters: &Counters,
) -> Result<Reindexed> {
    let env = crate::open(directory, known.1.map_size)?;
    let mut tables = IndexTables { env: &env, txn: told(env.write_txn())?, open: None };
    let path = directory.join(DATA);
    let made = reindex::reindex(&path, known, attributes, means, &mut tables, counters)?;
    counters.begin("sync", 0);
    counters.check()?;
    told(tables.txn.commit())?;
    Ok(made)
}

type IndexTable = Database<Bytes, Bytes>;

struct IndexTables<'e> {
    env: &'e Env,
    txn: RwTxn<'e>,
    open: Option<IndexTable>,
}

impl IndexSink for IndexTables<'_> {
    fn begin(&mut self, table: &str) -> Result<()> {
        let flags = DatabaseFlags::from_bits_truncate(codec::tables::INDEX.bits().into());
        let mut options = self.env.database_options().types::<Bytes, Bytes>();
        let table = told(options.name(table).flags(flags).create(&mut self.txn))?;
        told(table.clear(&mut self.txn))?;
        self.open = Some(table);
        Ok(())
    }
}

impl IndexWriter for IndexTables<'_> {
    /// Keys and IDs come in their order: LMDB need not look for their places.
    fn row(&mut self, key: &[u8], ids: &[u64]) -> Result<()> {
        let table = self.open.ok_or_else(|| Error::damaged("no table is open"))?;
        let mut flags = PutFlags::APPEND;
        for id in ids {
            told(table.put_with_flags(&mut self.txn, flags, key, &id.to_ne_bytes()))?;
            flags = PutFlags::APPEND_DUP;
        }
        Ok(())
    }
}
