//! Checks a database by code that is independent of the build ([`audit`]), and opens its tables.

use std::path::{Path, PathBuf};

use ldif::Counters;
use lmdbfile::{Reader, TableReader};
use schema::Schema;

use crate::audit::{self, AuditOptions, Level};
use crate::indexes::Indexes;
use crate::{Code, Error, Result, Settings};

/// Number of entries that a quick check looks up.
const SAMPLE: u64 = 16;

/// Resources for a check.
#[derive(Debug, Clone)]
pub struct Resources {
    /// In bytes.
    pub memory: usize,
    pub jobs: usize,
    /// Directory for temporary files.
    pub scratch: PathBuf,
}

/// Checks the database in the file at `path` against the schema and settings in `known`. Returns the number of entries;
/// fails if there is any finding.
///
/// Without `full`, checks that the counts of tables agree, and that a sample of entries is in dn2i and in every index.
/// With `full`, checks every page and every entry, and compares every index with the entries. `new`: a build has just
/// written the file.
pub fn verify(
    path: &Path,
    known: (&Schema, &Settings),
    resources: &Resources,
    (full, new): (bool, bool),
    counters: &Counters,
) -> Result<u64> {
    // If an index cannot be checked, the quick check fails, and the full check leaves out the index.
    let sample = if full { 0 } else { Indexes::read(known.0, known.1).map(|_| SAMPLE)? };
    let report = audit::audit(&AuditOptions {
        path,
        txn: None,
        level: Level::Indexes,
        sample,
        known: Some(known),
        new: new || !full,
        seen: None,
        limit: 1,
        means: resources,
        counters,
    })?;
    match report.problems.first().and_then(|(_, problem)| problem.told.first()) {
        None => Ok(report.entries),
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
    /// The index tables in the order of [`Indexes::tables`].
    pub index_tables: Vec<TableReader<'r>>,
    /// Attribute descriptions by number, from 1.
    pub texts: Vec<String>,
    pub entries: u64,
}

impl<'r> Database<'r> {
    /// Opens the tables. `blocks` reads the indexes, and `reader` all other tables; both read the same file.
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
        // The entry of the empty DN has no node other than the root.
        let root = id2e.get(&0u64.to_ne_bytes())?;
        let entries_below = entries - u64::from(root.is_some());
        if nodes != 2 * entries_below + 1 {
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

/// Returns the attribute descriptions by number, from 1.
pub(crate) fn descriptions(ad2i: TableReader<'_>) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    let mut cursor = ad2i.cursor()?;
    while let Some((number, text)) = cursor.next()? {
        if !codec::ad2i::follows(number, texts.len()) {
            return Err(wrong("the numbers in ad2i have a gap"));
        }
        texts.push(String::from_utf8_lossy(text).into_owned());
    }
    Ok(texts)
}

/// Decodes a record of dn2i.
pub fn read_node(record: &[u8]) -> Result<codec::dn2i::Node<'_>> {
    codec::dn2i::read(record).ok_or_else(|| wrong("a record of dn2i is damaged"))
}
