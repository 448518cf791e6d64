//! A finished database, looked at with other eyes than those that wrote it: read back from the disk, its
//! entries taken apart, and their keys looked for in every index.

use std::path::{Path, PathBuf};

use ldif::Counters;
use lmdbfile::{Reader, TableReader};
use schema::Schema;

use crate::audit::{self, AuditOptions, EntryChecker, Level};
use crate::descriptions::AttributeDescriptions;
use crate::indexes::Indexes;
use crate::stored::EntryReader;
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
/// index. With `full`: every page, every entry, and every index made again and compared ([`audit`]); whether the file is
/// `new`, as it was written in one go.
pub fn verify(
    path: &Path,
    schema: &Schema,
    settings: &Settings,
    full: Option<(&Resources, bool)>,
    counters: &Counters,
) -> Result<u64> {
    if let Some((means, new)) = full {
        return all(path, schema, settings, (means, new), counters);
    }
    let indexes = Indexes::read(schema, settings)?;
    // The keys of a sample lie all over the file: what lies around them is of no use.
    let mut reader = Reader::open_scattered(path)?;
    codec::tables::set_orders(&mut reader);
    let columns = AttributeDescriptions::new(schema, settings, &indexes);
    let database = Database::open(&reader, settings, &indexes)?;
    let judge = EntryChecker::new(schema, settings, &columns, &database.texts);
    sample(&EntryReader { database: &database, judge: &judge }, counters)?;
    Ok(database.entries)
}

/// Nothing may be found.
fn all(
    path: &Path,
    schema: &Schema,
    settings: &Settings,
    (means, new): (&Resources, bool),
    counters: &Counters,
) -> Result<u64> {
    let known = Some((schema, settings));
    let (txn, level, new, limit) = (None, Level::Indexes, new, 1);
    let found = audit::audit(&AuditOptions {
        path,
        txn,
        level,
        sample: 0,
        known,
        new,
        seen: None,
        limit,
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
    /// Those with IDs from 1 on.
    placed: u64,
}

impl<'r> Database<'r> {
    pub(crate) fn open(
        reader: &'r Reader,
        settings: &Settings,
        indexes: &'r Indexes,
    ) -> Result<Self> {
        let table = |name: &str| {
            reader
                .table(name.as_bytes())
                .ok_or_else(|| wrong(format!("the table {name} is missing")))
        };
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
            placed,
        })
    }
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

/// Entries at even distances, the first among them. A build beside a live server leaves gaps between IDs: then the next
/// one is looked at.
fn sample(stored: &EntryReader<'_>, counters: &Counters) -> Result<()> {
    let database = stored.database;
    let count = database.placed.min(SAMPLE);
    counters.begin("verify", count);
    let mut cursor = database.id2e.cursor()?;
    for at in 0..count {
        counters.check()?;
        let id = 1 + at * (database.placed - 1) / (count - 1).max(1);
        cursor.seek(&id.to_ne_bytes())?;
        let next = cursor.next()?;
        let (key, value) = next.ok_or_else(|| wrong(format!("entry {id} is not in id2e")))?;
        let id = codec::id::read(key).ok_or_else(|| wrong("a key of id2e is no entry ID"))?;
        stored.entry(id, value)?;
        stored.node(id)?;
        counters.advance(1);
    }
    Ok(())
}

/// Taken apart: the name in both forms, and the numbers behind it.
pub fn read_node(record: &[u8]) -> Result<codec::dn2i::Node<'_>> {
    codec::dn2i::read(record).ok_or_else(|| wrong("a record of dn2i is damaged"))
}
