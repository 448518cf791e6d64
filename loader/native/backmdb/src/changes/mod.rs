//! A database brought up to date: entries that changed at its provider, and those that are gone there.
//!
//! What is to be done is found out from a snapshot that nobody changes ([`incoming`], [`local`], [`places`]), and then
//! told to a [`Sink`] table by table, in the order of keys ([`edits`], [`postings`]). The sink makes one transaction of it.

mod dn2id;
mod edits;
mod incoming;
mod local;
mod postings;

pub(crate) use incoming::uuid_of;
pub(crate) use local::id_of;

use std::path::PathBuf;

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

/// 16 bytes.
pub type Uuid = u128;

/// What the provider told. Files have entryUUIDs of 16 bytes each.
#[derive(Debug, Default)]
pub struct SyncResult {
    /// LDIF of entries that changed; of the same entryUUID the last one counts.
    pub changed: Vec<PathBuf>,
    /// What stays unchanged, where the provider names that; all others are gone.
    pub present: Option<PathBuf>,
    pub deleted: Vec<PathBuf>,
    /// Entries among the changed ones that could not be found again: they changed since, or are gone.
    pub lost: Vec<Uuid>,
    /// The contextCSN of the database so far.
    pub reached: Vec<String>,
}

/// What was done.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct ChangeCounts {
    pub added: u64,
    pub modified: u64,
    /// Of the modified ones: those with another name or parent.
    pub renamed: u64,
    pub deleted: u64,
    /// Gone at the provider, but with entries below them that are not: they went after the claimed contextCSN.
    pub kept: u64,
    /// Nothing was done: entries whose place is taken, or whose parent is nowhere. They are to be looked at again.
    pub unsettled: Vec<Uuid>,
}

/// Takes what is to be done with the tables of the database.
pub trait Sink {
    /// What follows is of this table.
    fn open(&mut self, table: &str) -> Result<()>;
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
    /// One value of the key.
    fn remove(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
    /// All values of the key.
    fn clear(&mut self, key: &[u8]) -> Result<()>;
}

/// Brings the database in the file at `path`, to which nobody writes, up to date. `options`: as for a build; the
/// contextCSN they claim is what the database reaches.
pub fn apply(
    path: &std::path::Path,
    known: (&Schema, &Settings),
    options: &Options,
    told: &SyncResult,
    sink: &mut impl Sink,
    counters: &Counters,
) -> Result<ChangeCounts> {
    within(path, known, options, told, counters, |task| edits::apply(task, sink))
}

/// Finds the entries with these entryUUIDs: their IDs. Entries that share an entryUUID are refused.
pub fn locate(
    path: &std::path::Path,
    known: (&Schema, &Settings),
    options: &Options,
    uuids: impl IntoIterator<Item = Uuid>,
    counters: &Counters,
) -> Result<FxHashMap<Uuid, u64>> {
    let none = SyncResult::default();
    within(path, known, options, &none, counters, |task| local::locate(task, uuids))
}

fn within<T>(
    path: &std::path::Path,
    known: (&Schema, &Settings),
    options: &Options,
    told: &SyncResult,
    counters: &Counters,
    work: impl FnOnce(&edits::RefreshContext<'_>) -> Result<T>,
) -> Result<T> {
    let reader = codec::tables::with_orders(Reader::open(path)?);
    let asked = ConfiguredIndexes::of(&reader, known.0, known.1)?;
    let database = Database::open(&reader, &asked.settings, &asked.indexes)?;
    require_known(&asked, &database)?;
    let columns = AttributeDescriptions::new(known.0, &asked.settings, &asked.indexes);
    number(&columns, &database.texts)?;
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
    work(&edits::RefreshContext { reader: &reader, database: &database, shared: &shared, told })
}

/// What cannot be followed is refused.
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

/// Gives the descriptions of ad2i the numbers that they have there.
fn number(columns: &AttributeDescriptions<'_>, texts: &[String]) -> Result<()> {
    for (number, text) in (1..).zip(texts) {
        let given =
            columns.column(text.as_bytes()).and_then(|column| columns.assign_number(&column));
        if given.as_ref().ok() != Some(&number) {
            let message = format!("{text}: in the database, but not in the schema by that name");
            return Err(Error::new(Code::Unproven, message));
        }
    }
    Ok(())
}
