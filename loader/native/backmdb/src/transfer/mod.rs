//! A database made again for another slapd with its records as they are: another file format, other indexes.
//!
//! First every entry is looked at ([`check`]): is it stored as the new slapd would store it? If so, the tables of entries
//! and names are copied record by record ([`records`]), IDs and all, and the index tables are written from keys that
//! were made on the way. Nothing is decoded and encoded again. Else nothing is made, and [`Code::Unproven`] says why.

mod check;
mod records;

use std::collections::BTreeMap;
use std::path::Path;

use codec::tables;
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

/// What was made.
#[derive(Debug)]
pub struct Transferred {
    pub entries: u64,
    /// Of all that was copied.
    pub records: Records,
    /// Table -> values in it.
    pub tables: BTreeMap<String, u64>,
    /// By the names of attributes.
    pub misfits: Vec<InvalidValues>,
}

/// Makes `out` anew from the file at `path`, for a slapd with these settings; on success the whole file is on the disk.
/// `txn`: as in [`crate::audit::AuditOptions`].
pub fn transfer(
    (path, txn): (&Path, Option<u64>),
    out: &Path,
    known: (&Schema, &Settings),
    means: &Resources,
    counters: &Counters,
) -> Result<Transferred> {
    let opened = txn.map_or_else(|| Reader::open(path), |txn| Reader::open_at(path, txn));
    let mut reader = opened?;
    tables::set_orders(&mut reader);
    let (schema, settings) = known;
    let asked = ConfiguredIndexes {
        settings: settings.clone(),
        indexes: Indexes::read(schema, settings)?,
        notes: Vec::new(),
        left_out: std::collections::BTreeSet::new(),
    };
    let (sorted, misfits) = check::Check::new(schema, &asked, means, counters)?.run(&reader)?;
    let file = FileWriter::create(out, &settings.file_options())?;
    let task = Writing { reader: &reader, asked: &asked, counters, file };
    Ok(Transferred { misfits, ..task.run(&sorted)? })
}

struct Writing<'a> {
    reader: &'a Reader,
    asked: &'a ConfiguredIndexes,
    counters: &'a Counters,
    file: FileWriter,
}

impl Writing<'_> {
    fn run(mut self, sorted: &extsort::Sorted) -> Result<Transferred> {
        let settings = &self.asked.settings;
        self.counters.begin("write", self.asked.indexes.tables.len() as u64 + 4);
        let (mut made, mut sum) = (Vec::new(), Records::default());
        for table in records::COPIED {
            if table.name == "id2v" && !settings.has_id2v {
                continue;
            }
            let written = self.copy(table.name, &mut sum)?;
            made.push((table.name.to_owned(), written));
        }
        for (at, table) in self.asked.indexes.tables.iter().enumerate() {
            let exponent = settings.list_exponent;
            let plain = Numbering::plain();
            let written = postings::write(&mut self.file, sorted, at, &plain, exponent)?;
            made.push((table.name.clone(), written));
            self.step()?;
        }
        if settings.has_ixck {
            let empty = tables::IXCK.writer(self.file.layout());
            made.push(("ixck".to_owned(), empty.finish(&mut self.file)?));
        }
        self.finish(made, sum)
    }

    fn copy(&mut self, name: &str, sum: &mut Records) -> Result<Table> {
        let copied = records::copy(self.reader, name, &mut self.file, self.counters, sum);
        self.step()?;
        copied.map_err(|error| match error.kind {
            ErrorKind::TooLong => {
                let message = format!("the new file takes no such record of {name}: {error}");
                Error::new(Code::Unproven, message)
            }
            _ => error.into(),
        })
    }

    fn step(&self) -> Result<()> {
        self.counters.advance(1);
        self.counters.check()
    }

    fn finish(self, made: Vec<(String, Table)>, records: Records) -> Result<Transferred> {
        self.counters.begin("sync", 0);
        let tables: BTreeMap<_, _> =
            made.iter().map(|(name, table)| (name.clone(), table.entries)).collect();
        let entries = tables.get("id2e").copied().unwrap_or_default();
        let named = made.into_iter().map(|(name, table)| (name.into_bytes(), table)).collect();
        self.file.finish(named)?;
        Ok(Transferred { entries, records, tables, misfits: Vec::new() })
    }
}
