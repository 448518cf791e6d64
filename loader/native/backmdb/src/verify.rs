//! Checks a finished database independently of the code that wrote it ([`audit`]), and opens its tables.

use std::path::{Path, PathBuf};

use ldif::Counters;
use lmdbfile::{Reader, TableReader};
use schema::Schema;

use crate::audit::{self, AuditOptions, Level};
use crate::indexes::Indexes;
use crate::{Code, Error, Result, Settings};

/// Entries that are looked up if not all are.
const SAMPLE: u64 = 16;

/// Resources for a check.
#[derive(Debug, Clone)]
pub struct Resources {
    /// Bytes.
    pub memory: usize,
    pub jobs: usize,
    pub scratch: PathBuf,
}

/// Checks the database in the file at `path` against `known`; returns its number of entries.
///
/// Always checks that tables and their counts agree, and that a sample of entries is in dn2i and in every index. With
/// `full`: checks every page and every entry, and computes and compares every index. `new`: the file was written in one
/// go. Fails on any finding.
pub fn verify(
    path: &Path,
    known: (&Schema, &Settings),
    means: &Resources,
    (full, new): (bool, bool),
    counters: &Counters,
) -> Result<u64> {
    // An index that cannot be checked reliably is an error, not left out.
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

/// The tables of a file, and their configuration.
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
    /// `blocks` reads the indexes, `reader` all other tables of the same file.
    pub(crate) fn open(
        reader: &'r Reader,
        blocks: &'r Reader,
        settings: &Settings,
        indexes: &'r Indexes,
    ) -> Result<Self> {
        let table = |name: &str| table(reader, name);
        let (id2e, dn2i) = (table("id2e")?, table("dn2i")?);
        let entries = id2e.record().entries;
        let nodes = dn2i.record().entries;
        // The entry of the empty DN is the root itself, with one record in dn2i and no index keys.
        let root = id2e.get(&0u64.to_ne_bytes())?;
        let placed = entries - u64::from(root.is_some());
        if nodes != 2 * placed + 1 {
            return Err(wrong(format!("{entries} entries in id2e, but {nodes} records in dn2i")));
        }
        let index_tables = indexes.tables.iter().map(|index| self::table(blocks, &index.name));
        Ok(Self {
            indexes,
            id2e,
            dn2i,
            id2v: if settings.has_id2v { Some(table("id2v")?) } else { None },
            index_tables: index_tables.collect::<Result<_>>()?,
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

/// Decodes a record of dn2i: the name in both forms, and the numbers after it.
pub fn read_node(record: &[u8]) -> Result<codec::dn2i::Node<'_>> {
    codec::dn2i::read(record).ok_or_else(|| wrong("a record of dn2i is damaged"))
}
