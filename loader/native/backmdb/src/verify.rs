//! A finished database, looked at with other eyes than those that wrote it: read back from the disk, its
//! entries taken apart, and their keys looked for in every index.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ldif::Counters;
use lmdbfile::{Reader, TableReader};
use schema::Schema;

use crate::columns::{Column, Columns};
use crate::indexes::Indexes;
use crate::stored::Stored;
use crate::{Code, Error, Result, Settings, full, node};

/// So many entries are looked up when not all are.
const SAMPLE: u64 = 16;

/// Memory and scratch space of a full look.
#[derive(Debug, Clone)]
pub struct Means {
    pub memory: usize,
    pub jobs: usize,
    pub scratch: PathBuf,
}

/// The database in the file at `path`, whose configuration is `settings`. How many entries it has.
///
/// Always: that tables and their counts agree, and that a sample of entries stands in dn2i and in every
/// index. With `full`: every page, every entry, and every index made again and compared.
pub fn verify(
    path: &Path,
    schema: &Schema,
    settings: &Settings,
    full: Option<&Means>,
    counters: &Counters,
) -> Result<u64> {
    let indexes = Indexes::read(schema, settings)?;
    let mut reader = Reader::open(path).map_err(|error| damaged(&error))?;
    Stored::set_orders(&mut reader);
    let columns = Columns::new(schema, settings, &indexes);
    let database = Database::open(&reader, settings, &indexes, &columns)?;
    let stored = Stored { database: &database, schema, settings };
    match full {
        None => sample(&stored, counters)?,
        Some(means) => full::verify(&stored, means, counters)?,
    }
    Ok(database.entries)
}

pub fn damaged(error: &lmdbfile::Error) -> Error {
    Error::new(Code::Damaged, error.to_string())
}

pub fn wrong(message: impl Into<String>) -> Error {
    Error::new(Code::Damaged, message)
}

/// The tables of a file, and what the configuration says of them.
#[derive(Debug)]
pub struct Database<'r> {
    pub reader: &'r Reader,
    pub indexes: &'r Indexes,
    pub id2e: TableReader<'r>,
    pub dn2i: TableReader<'r>,
    pub id2v: Option<TableReader<'r>>,
    /// In the order of [`Indexes::tables`].
    pub index_tables: Vec<TableReader<'r>>,
    /// By number, from 1.
    pub columns: Vec<Arc<Column>>,
    pub entries: u64,
}

impl<'r> Database<'r> {
    fn open(
        reader: &'r Reader,
        settings: &Settings,
        indexes: &'r Indexes,
        columns: &Columns<'_>,
    ) -> Result<Self> {
        let table = |name: &str| {
            reader
                .table(name.as_bytes())
                .ok_or_else(|| wrong(format!("the table {name} is missing")))
        };
        let (id2e, dn2i) = (table("id2e")?, table("dn2i")?);
        let entries = id2e.record().entries;
        let nodes = dn2i.record().entries;
        if nodes != 2 * entries + 1 {
            return Err(wrong(format!("{entries} entries in id2e, but {nodes} records in dn2i")));
        }
        let names = indexes.tables.iter().map(|index| table(&index.name));
        Ok(Self {
            reader,
            indexes,
            id2e,
            dn2i,
            id2v: if settings.has_id2v { Some(table("id2v")?) } else { None },
            index_tables: names.collect::<Result<_>>()?,
            columns: descriptions(table("ad2i")?, columns)?,
            entries,
        })
    }

    /// The column that ad2i has under a number.
    pub fn column(&self, number: u32) -> Result<&Column> {
        let at = (number as usize).checked_sub(1);
        let known = at.and_then(|at| self.columns.get(at));
        known.map(Arc::as_ref).ok_or_else(|| wrong(format!("no attribute has the number {number}")))
    }
}

fn descriptions(ad2i: TableReader<'_>, columns: &Columns<'_>) -> Result<Vec<Arc<Column>>> {
    let mut found = Vec::new();
    let mut cursor = ad2i.cursor().map_err(|error| damaged(&error))?;
    while let Some((number, text)) = cursor.next().map_err(|error| damaged(&error))? {
        let expected = u32::try_from(found.len() + 1).unwrap_or(u32::MAX);
        if number != expected.to_ne_bytes() {
            return Err(wrong("the numbers in ad2i have a gap"));
        }
        found.push(columns.column(text).map_err(|refusal| wrong(format!("ad2i: {}", refusal.0)))?);
    }
    Ok(found)
}

/// Entries at even distances, the first and the last among them.
fn sample(stored: &Stored<'_>, counters: &Counters) -> Result<()> {
    let database = stored.database;
    let count = database.entries.min(SAMPLE);
    counters.begin("verify", count);
    for at in 0..count {
        counters.check()?;
        let id = 1 + at * (database.entries - 1) / (count - 1).max(1);
        let value = database.id2e.get(&id.to_ne_bytes()).map_err(|error| damaged(&error))?;
        let value = value.ok_or_else(|| wrong(format!("entry {id} is not in id2e")))?;
        stored.entry(id, &value, &mut |table, key| stored.has_key(table, key, id))?;
        stored.node(id)?;
        counters.advance(1);
    }
    Ok(())
}

/// Taken apart: the name in both forms, and the numbers behind it.
pub fn read_node(record: &[u8]) -> Result<node::Node<'_>> {
    node::read(record).ok_or_else(|| wrong("a record of dn2i is damaged"))
}
