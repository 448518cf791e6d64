//! Converts a database for another slapd, with other file format or indexes, without decoding its records.
//!
//! Every entry is checked ([`check`]): would the new slapd store it the same way? In parallel the tables of entries and
//! names are copied record by record with their IDs ([`records`]). Then the index tables are written from keys that the
//! check generated. If an entry would be stored differently, it fails with [`Code::Unproven`], and the copy must be
//! discarded.

mod check;
mod records;

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use codec::tables;
use extsort::Sorted;
use ldif::Counters;
use lmdbfile::{ErrorKind, FileWriter, Reader, Table};
use schema::Schema;

use crate::audit::indexes::ConfiguredIndexes;
use crate::descriptions::InvalidValues;
use crate::indexes::Indexes;
use crate::numbering::Numbering;
use crate::verify::Resources;
use crate::{Code, Error, Result, Settings, postings};
pub use records::{Records, records};

/// The result of a conversion.
pub struct Transferred {
    pub entries: u64,
    /// Checksum of all copied records.
    pub checksum: Records,
    /// Table -> number of its values.
    pub tables: BTreeMap<String, u64>,
    /// Invalid values by attribute name.
    pub misfits: Vec<InvalidValues>,
}

/// Writes `out` from the file at `path`, for a slapd with these settings; on success the whole file is on disk. `txn`:
/// as in [`crate::audit::AuditOptions`].
pub fn transfer(
    (path, txn): (&Path, Option<u64>),
    out: &Path,
    known: (&Schema, &Settings),
    means: &Resources,
    counters: &Counters,
) -> Result<Transferred> {
    let reader = tables::with_orders(Reader::open_at(path, txn)?);
    let (schema, settings) = known;
    let asked = ConfiguredIndexes {
        settings: settings.clone(),
        indexes: Indexes::read(schema, settings)?,
        notes: Vec::new(),
        left_out: std::collections::BTreeSet::new(),
    };
    let check = check::Check::new(schema, &asked, means, counters)?;
    let file = FileWriter::create(out, &settings.file_options())?;
    let mut task = Writing { asked: &asked, counters, file, made: Vec::new(), records: Records::default() };
    let (sorted, misfits) = check_and_copy(&check, &reader, &mut task)?;
    task.indexes(&sorted)?;
    Ok(Transferred { misfits, ..task.finish()? })
}

/// Copies tables while entries are checked. If both fail, the error of the check is returned.
fn check_and_copy(
    check: &check::Check<'_>,
    reader: &Reader,
    task: &mut Writing<'_>,
) -> Result<(Sorted, Vec<InvalidValues>)> {
    let (own, stop) = (reader.fork()?, &AtomicBool::new(false));
    let (checked, copied) = thread::scope(|scope| {
        let copying = scope.spawn(move || task.copy_all(&own, stop));
        let checked = check.run(reader);
        stop.store(checked.is_err(), Relaxed);
        (checked, copying.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    let found = checked?;
    copied.map(|()| found)
}

struct Writing<'a> {
    asked: &'a ConfiguredIndexes,
    counters: &'a Counters,
    file: FileWriter,
    made: Vec<(String, Table)>,
    records: Records,
}

impl Writing<'_> {
    fn copy_all(&mut self, reader: &Reader, stop: &AtomicBool) -> Result<()> {
        let is_stopped = || stop.load(Relaxed);
        let wanted = || if is_stopped() { Err(Error::cancelled()) } else { self.counters.check() };
        for table in records::COPIED.map(|table| table.name) {
            if table == "id2v" && !self.asked.settings.has_id2v {
                continue;
            }
            let copied = records::copy(reader, table, &mut self.file, &wanted, &mut self.records);
            self.made.push((table.to_owned(), copied.map_err(|error| not_taken(table, error))?));
        }
        Ok(())
    }

    fn indexes(&mut self, sorted: &Sorted) -> Result<()> {
        let Settings { list_exponent, has_ixck, .. } = self.asked.settings;
        self.counters.begin("write", self.asked.indexes.tables.len() as u64);
        for (at, table) in self.asked.indexes.tables.iter().enumerate() {
            let plain = Numbering::plain();
            let written = postings::write(&mut self.file, sorted, at, &plain, list_exponent)?;
            self.made.push((table.name.clone(), written));
            self.counters.advance(1);
            self.counters.check()?;
        }
        if has_ixck {
            let empty = tables::IXCK.writer(self.file.layout());
            self.made.push(("ixck".to_owned(), empty.finish(&mut self.file)?));
        }
        Ok(())
    }

    fn finish(self) -> Result<Transferred> {
        self.counters.begin("sync", 0);
        let Self { made, records: checksum, .. } = self;
        let tables: BTreeMap<_, _> = made.iter().map(|(name, table)| (name.clone(), table.entries)).collect();
        let entries = tables.get("id2e").copied().unwrap_or_default();
        let named = made.into_iter().map(|(name, table)| (name.into_bytes(), table)).collect();
        self.file.finish(named)?;
        Ok(Transferred { entries, checksum, tables, misfits: Vec::new() })
    }
}

/// Returns the error for a record of `table` that the new file cannot store.
fn not_taken(table: &str, error: lmdbfile::Error) -> Error {
    match error.kind {
        ErrorKind::TooLong => {
            let message = format!("the new file cannot store a record of {table}: {error}");
            Error::new(Code::Unproven, message)
        }
        _ => error.into(),
    }
}
