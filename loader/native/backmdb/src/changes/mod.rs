//! Updates a database with the entries that its provider changed or deleted.
//!
//! The changes are computed from a snapshot ([`incoming`], [`local`], [`dn2id`]), then passed to a [`Sink`] table by
//! table, mostly in the order of keys ([`edits`], [`postings`]). The sink applies them in one transaction.

mod dn2id;
mod edits;
mod incoming;
mod local;
mod postings;

pub(crate) use incoming::uuid_of;
pub(crate) use local::id_of;

use std::path::{Path, PathBuf};

use common::WithCode;
use ldif::Counters;
use lmdbfile::Reader;
use rustc_hash::FxHashMap;
use schema::Schema;

use crate::audit::indexes::ConfiguredIndexes;
use crate::descriptions::AttributeDescriptions;
use crate::naming::Suffixes;
use crate::shared::BuildContext;
use crate::verify::Database;
use crate::{Code, Error, Options, Result, Settings};
use tree::claim::Claim;

/// An entryUUID of 16 bytes.
pub type Uuid = u128;

/// The provider's report. `present` and `deleted` are files with entryUUIDs of 16 bytes each.
#[derive(Debug, Default)]
pub struct SyncResult {
    /// LDIF files of changed entries. The last record of an entryUUID replaces earlier ones.
    pub changed: Vec<PathBuf>,
    /// Unchanged entries, if the provider lists them. Then all entries that are neither listed nor changed are deleted.
    pub present: Option<PathBuf>,
    pub deleted: Vec<PathBuf>,
    /// Changed entries that could not be read again, because they changed once more or were deleted.
    pub lost: Vec<Uuid>,
    /// The contextCSN that the database has before the update.
    pub reached: Vec<String>,
}

/// The result of a refresh.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ChangeCounts {
    pub added: u64,
    pub modified: u64,
    /// Modified entries with another name or parent.
    pub renamed: u64,
    pub deleted: u64,
    /// Deleted entries that are kept for their subordinates: they were deleted after the claimed contextCSN.
    pub kept: u64,
    /// If not empty, nothing was changed. These entries must be read again: their names are taken, or their parents are
    /// missing.
    pub unsettled: Vec<Uuid>,
}

/// Applies changes to the tables of the database.
pub trait Sink {
    /// Selects the table for the following calls.
    fn open(&mut self, table: &str) -> Result<()>;
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
    /// Removes one value of the key.
    fn remove(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
    /// Removes all values of the key.
    fn clear(&mut self, key: &[u8]) -> Result<()>;
}

/// Updates the database in the file at `path`, to which nobody else may write. `options`: as for a build;
/// [`Options::claimed`] is the contextCSN of the database after the update.
pub fn apply(
    path: &Path,
    known: (&Schema, &Settings),
    options: &Options,
    report: &SyncResult,
    sink: &mut impl Sink,
    counters: &Counters,
) -> Result<ChangeCounts> {
    within(path, known, options, report, counters, |task| edits::apply(task, sink))
}

/// Returns the IDs of the entries with these entryUUIDs. Fails if two entries share an entryUUID.
pub fn locate(
    path: &Path,
    known: (&Schema, &Settings),
    options: &Options,
    uuids: impl IntoIterator<Item = Uuid>,
    counters: &Counters,
) -> Result<FxHashMap<Uuid, u64>> {
    let none = SyncResult::default();
    within(path, known, options, &none, counters, |task| local::locate(task, uuids))
}

fn within<T>(
    path: &Path,
    known: (&Schema, &Settings),
    options: &Options,
    report: &SyncResult,
    counters: &Counters,
    work: impl FnOnce(&edits::RefreshContext<'_>) -> Result<T>,
) -> Result<T> {
    // Index keys are looked up in their order, so the indexes are read in blocks. With a list of present entries, all
    // entries are read in blocks, too. Otherwise the entries are scattered over the file, and are read page by page.
    let blocks = codec::tables::with_orders(Reader::open(path)?);
    let is_scan = report.present.is_some();
    let reader = if is_scan { Reader::open(path)? } else { Reader::open_scattered(path)? };
    let reader = codec::tables::with_orders(reader);
    let asked = ConfiguredIndexes::of(&reader, known.0, known.1)?;
    let database = Database::open(&reader, &blocks, &asked.settings, &asked.indexes)?;
    require_known(&asked, &database)?;
    let columns = AttributeDescriptions::new(known.0, &asked.settings, &asked.indexes);
    assign_numbers(&columns, &database.texts)?;
    let longest_row = reader.layout().max_key();
    let (own, foreign) = (&asked.settings.suffixes, &asked.settings.foreign);
    let suffixes = Suffixes::read(known.0, own, foreign, longest_row);
    let shared = BuildContext {
        schema: known.0,
        settings: &asked.settings,
        options,
        counters,
        columns,
        suffixes: suffixes.with_code(Code::Schema)?,
        longest_row,
        claim: Some(Claim::new(options.claimed.as_deref().unwrap_or_default())),
        live: false,
        completed: std::sync::Mutex::default(),
        positions: workers::Turn::new(0),
        numbers: workers::Turn::new(()),
    };
    work(&edits::RefreshContext { reader: &reader, database: &database, shared: &shared, report })
}

/// Refuses configurations that a refresh does not support.
fn require_known(asked: &ConfiguredIndexes, database: &Database<'_>) -> Result<()> {
    let refuse = |why: &str| Err(Error::new(Code::Unproven, why));
    if let Some(note) = asked.notes.first() {
        return refuse(note);
    }
    let apart = database.id2v.is_some_and(|table| table.record().entries > 0);
    if apart || !asked.settings.apart_above.is_empty() {
        return refuse("multival: values that live in id2v");
    }
    if asked.settings.suffixes.iter().any(String::is_empty) {
        return refuse("the empty suffix");
    }
    Ok(())
}

/// Assigns the numbers of ad2i to the descriptions.
fn assign_numbers(columns: &AttributeDescriptions<'_>, texts: &[String]) -> Result<()> {
    for (number, text) in (1..).zip(texts) {
        if columns.number_of(text.as_bytes()).ok() != Some(number) {
            let message = format!("{text}: in the database, but not in the schema by that name");
            return Err(Error::new(Code::Unproven, message));
        }
    }
    Ok(())
}
