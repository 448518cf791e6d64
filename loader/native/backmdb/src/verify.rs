//! A finished database, looked at with other eyes than those that wrote it ([`audit`]); and its tables.

use std::path::{Path, PathBuf};

use ldif::Counters;
use lmdbfile::{Reader, TableReader};
use schema::Schema;

use crate::audit::{self, AuditOptions, Level};
use crate::indexes::Indexes;
use crate::{Code, Error, Result, Settings};

/// So many entries are looked up when not all are.
const SAMPLE: u64 = 16;

/// What a look may take.
#[derive(Debug, Clone)]
pub struct Resources {
    /// Bytes.
    pub memory: usize,
    pub jobs: usize,
    pub scratch: PathBuf,
}

/// The database in the file at `path`, whose configuration is `settings`. How many entries it has.
///
/// Always: that tables and their counts agree, and that a sample of entries stands in dn2i and in every
/// index. With `full`: every page, every entry, and every index made again and compared. `new`: the file was written in
/// one go. Nothing may be found.
pub fn verify(
    path: &Path,
    known: (&Schema, &Settings),
    means: &Resources,
    (full, new): (bool, bool),
    counters: &Counters,
) -> Result<u64> {
    // An index that is not known well enough is refused, and not left out.
    let sample = if full { 0 } else { Indexes::read(known.0, known.1).map(|_| SAMPLE)? };
    let found = audit::audit(&AuditOptions {
        path,
        txn: None,
        level: Level::Indexes,
        sample,
        known: Some(known),
        new: new || !full,
        seen: None,
        limit: 1,
        means,
        counters,
    })?;
    match found.problems.first().and_then(|(_, problem)| problem.told.first()) {
        None => Ok(found.entries),
        Some(first) => Err(wrong(first.to_string())),
    }
}

pub fn wrong(message: impl Into<String>) -> Error {
    Error::new(Code::Damaged, message)
}

/// The tables of a file, and what the configuration says of them.
#[derive(Debug)]
pub struct Database<'r> {
    pub indexes: &'r Indexes,
    pub id2e: TableReader<'r>,
    pub dn2i: TableReader<'r>,
    pub id2v: Option<TableReader<'r>>,
    /// In the order of [`Indexes::tables`].
    pub index_tables: Vec<TableReader<'r>>,
    /// Attribute descriptions by number, from 1.
    pub texts: Vec<String>,
    pub entries: u64,
}

impl<'r> Database<'r> {
    pub(crate) fn open(
        reader: &'r Reader,
        settings: &Settings,
        indexes: &'r Indexes,
    ) -> Result<Self> {
        let table = |name: &str| table(reader, name);
        let (id2e, dn2i) = (table("id2e")?, table("dn2i")?);
        let entries = id2e.record().entries;
        let nodes = dn2i.record().entries;
        // The entry of the empty DN is the root itself, which has a node and no index keys.
        let root = id2e.get(&0u64.to_ne_bytes())?;
        let placed = entries - u64::from(root.is_some());
        if nodes != 2 * placed + 1 {
            return Err(wrong(format!("{entries} entries in id2e, but {nodes} records in dn2i")));
        }
        let names = indexes.tables.iter().map(|index| table(&index.name));
        Ok(Self {
            indexes,
            id2e,
            dn2i,
            id2v: if settings.has_id2v { Some(table("id2v")?) } else { None },
            index_tables: names.collect::<Result<_>>()?,
            texts: descriptions(table("ad2i")?)?,
            entries,
        })
    }
}

pub fn table<'r>(reader: &'r Reader, name: &str) -> Result<TableReader<'r>> {
    reader.table(name.as_bytes()).ok_or_else(|| wrong(format!("the table {name} is missing")))
}

pub(crate) fn descriptions(ad2i: TableReader<'_>) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut cursor = ad2i.cursor()?;
    while let Some((number, text)) = cursor.next()? {
        if !codec::ad2i::follows(number, found.len()) {
            return Err(wrong("the numbers in ad2i have a gap"));
        }
        found.push(String::from_utf8_lossy(text).into_owned());
    }
    Ok(found)
}

/// Taken apart: the name in both forms, and the numbers behind it.
pub fn read_node(record: &[u8]) -> Result<codec::dn2i::Node<'_>> {
    codec::dn2i::read(record).ok_or_else(|| wrong("a record of dn2i is damaged"))
}
