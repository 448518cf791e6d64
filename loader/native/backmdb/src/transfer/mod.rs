//! Converts a database for another slapd, with another file format or other indexes, by copying its records.
//!
//! Every entry is checked ([`check`]): the new slapd must store it in the same way. Meanwhile the tables of entries and
//! names are copied record by record with their IDs ([`records`]). Then the index tables are written from the keys that
//! the check generated. If the new slapd would store an entry differently, the conversion fails with
//! [`Code::Unproven`], and the copy must be discarded.

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

/// Writes `out` from the file at `path`, for a slapd with these settings. On success the whole file is on disk. `txn`:
/// as in [`crate::audit::AuditOptions`].
pub fn transfer(
    (path, txn): (&Path, Option<u64>),
    out: &Path,
    (schema, settings): (&Schema, &Settings),
    resources: &Resources,
    counters: &Counters,
) -> Result<Transferred> {
    let reader = tables::with_orders(Reader::open_at(path, txn)?);
    let indexes = Indexes::read(schema, settings)?;
    let check = check::Check::new((schema, settings), &indexes, resources, counters)?;
    let file = FileWriter::create(out, &settings.file_options())?;
    let mut copy = Copy { settings, counters, file, tables: Vec::new(), records: Records::default() };
    let (sorted, misfits) = check_and_copy(&check, &reader, &mut copy)?;
    copy.indexes(&indexes, &sorted)?;
    copy.finish(misfits)
}

/// Copies tables while entries are checked. If both fail, the error of the check is returned.
fn check_and_copy(
    check: &check::Check<'_>,
    reader: &Reader,
    copy: &mut Copy<'_>,
) -> Result<(Sorted, Vec<InvalidValues>)> {
    let (own, stop) = (reader.fork()?, &AtomicBool::new(false));
    let (checked, copied) = thread::scope(|scope| {
        let copying = scope.spawn(move || copy.copy_all(&own, stop));
        let checked = check.run(reader);
        stop.store(checked.is_err(), Relaxed);
        (checked, copying.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    let sorted = checked?;
    copied.map(|()| sorted)
}

/// The state of the new file during the conversion.
struct Copy<'a> {
    settings: &'a Settings,
    counters: &'a Counters,
    file: FileWriter,
    /// The finished tables.
    tables: Vec<(String, Table)>,
    records: Records,
}

impl Copy<'_> {
    fn copy_all(&mut self, reader: &Reader, stop: &AtomicBool) -> Result<()> {
        let check = || if stop.load(Relaxed) { Err(Error::cancelled()) } else { self.counters.check() };
        for table in records::COPIED.map(|table| table.name) {
            if table == "id2v" && !self.settings.has_id2v {
                continue;
            }
            let copied = records::copy(reader, table, &mut self.file, &check, &mut self.records);
            self.tables.push((table.to_owned(), copied.map_err(|error| copy_error(table, error))?));
        }
        Ok(())
    }

    fn indexes(&mut self, indexes: &Indexes, sorted: &Sorted) -> Result<()> {
        self.counters.begin("write", indexes.tables.len() as u64);
        for (at, table) in indexes.tables.iter().enumerate() {
            let exponent = self.settings.list_exponent;
            let written = postings::write(&mut self.file, sorted, at, &Numbering::plain(), exponent)?;
            self.tables.push((table.name.clone(), written));
            self.counters.advance(1);
            self.counters.check()?;
        }
        if self.settings.has_ixck {
            let empty = tables::IXCK.writer(self.file.layout());
            self.tables.push(("ixck".to_owned(), empty.finish(&mut self.file)?));
        }
        Ok(())
    }

    fn finish(self, misfits: Vec<InvalidValues>) -> Result<Transferred> {
        self.counters.begin("sync", 0);
        let tables: BTreeMap<_, _> = self.tables.iter().map(|(name, table)| (name.clone(), table.entries)).collect();
        let entries = tables.get("id2e").copied().unwrap_or_default();
        let named = self.tables.into_iter().map(|(name, table)| (name.into_bytes(), table)).collect();
        self.file.finish(named)?;
        Ok(Transferred { entries, checksum: self.records, tables, misfits })
    }
}

/// Converts the error of copying `table`. If a record is too long, says that the new file cannot store it.
fn copy_error(table: &str, error: lmdbfile::Error) -> Error {
    if error.kind != ErrorKind::TooLong {
        return error.into();
    }
    Error::new(Code::Unproven, format!("the new file cannot store a record of {table}: {error}"))
}
