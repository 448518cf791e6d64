//! Fourth level of the audit: computes every index from the entries, and compares it with the index in the file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use codec::tables;
use extsort::{Postings, Sorted};
use ldif::Counters;
use lmdbfile::Reader;
use schema::Schema;

use super::AuditOptions;
use super::findings::{Finding, Findings, Kind};
use super::index_comparison::{IndexComparison, IndexCounts};
use super::ranges::{StopReason, side_by_side};
use crate::entry::Posting;
use crate::indexes::Indexes;
use crate::{Code, Error, Result, Settings, lock, verify};

pub const NOT_THERE: &str = "configured, but not in the file: no slapd has opened it since";
pub const TOO_LONG: &str = "more IDs than slapd's idlexp allows: it reads beyond its buffer";
/// Kinds of problems that make searches by the index miss entries or go wrong otherwise.
const STALE: [Kind; 4] = [Kind::Index, Kind::Posting, Kind::Missing, Kind::TooLong];

/// The configured indexes, without the indexes that cannot be checked.
pub struct ConfiguredIndexes {
    pub settings: Settings,
    pub indexes: Indexes,
    /// For each index that is not checked, the reason.
    pub notes: Vec<String>,
    /// Tables of configured indexes that are not checked.
    pub left_out: BTreeSet<String>,
}

impl ConfiguredIndexes {
    /// Reads the configured indexes. The tables of the file decide whether keys are checked as those of slapd 2.4 or
    /// later: `settings` may be of another version.
    pub fn of(reader: &Reader, schema: &Schema, settings: &Settings) -> Result<Self> {
        let has_id2v = reader.table(b"id2v").is_some();
        let mut checked = Settings { of_2_4: !has_id2v, has_id2v, ..settings.clone() };
        let (mut notes, mut left_out) = (Vec::new(), BTreeSet::new());
        for index in std::mem::take(&mut checked.indexes) {
            checked.indexes.push(index);
            let Err(error) = Indexes::read(schema, &checked) else { continue };
            if error.code != Code::Unproven {
                return Err(error);
            }
            left_out.extend(checked.indexes.pop().and_then(|(name, _)| table_name(schema, &name)));
            notes.push(format!("not looked at: {}", error.message));
        }
        let indexes = Indexes::read(schema, &checked)?;
        Ok(Self { settings: checked, indexes, notes, left_out })
    }

    /// Creates the sorter for the keys of all indexes.
    pub fn postings(&self, resources: &verify::Resources, counters: &Counters) -> Postings {
        self.indexes.postings(resources.memory, &resources.scratch, counters.flag())
    }

    /// Returns the index tables of the file for which no index is configured.
    pub fn unconfigured_indexes(&self, reader: &Reader) -> Vec<String> {
        let fixed = tables::ALL.iter().map(|table| table.name.as_bytes());
        let configured = self.indexes.tables.iter().map(|table| table.name.as_bytes());
        let left_out = self.left_out.iter().map(String::as_bytes);
        let expected: BTreeSet<&[u8]> = fixed.chain(configured).chain(left_out).collect();
        let names = reader.names().filter(|name| !expected.contains(name));
        names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    }
}

/// Returns the name of an index's table: the name of the attribute type. `description`: the configured description,
/// which may use another name of the type.
pub fn table_name(schema: &Schema, description: &str) -> Option<String> {
    let described = schema.describe(description.as_bytes()).ok()?;
    Some(schema.get(described.attribute).name.clone())
}

/// The inputs that all workers share.
pub struct Task<'a> {
    pub options: &'a AuditOptions<'a>,
    pub configured: &'a ConfiguredIndexes,
    /// The keys that the entries require.
    pub sorted: &'a Sorted,
    /// Names of tables with damaged pages, which are not compared.
    pub damaged: &'a BTreeSet<String>,
}

/// Checks all indexes in parallel. The findings are in the order of the configuration. The names of indexes that must
/// be rebuilt are added to `drifted`.
pub fn check(task: &Task<'_>, reader: &Reader, findings: &mut Findings, drifted: &mut BTreeSet<String>) -> Result<()> {
    let tables = &task.configured.indexes.tables;
    task.options.counters.begin("indexes", tables.len() as u64);
    let by_index = Mutex::new(BTreeMap::new());
    side_by_side(reader, task.options.means.jobs, tables.len(), |reader, turns| {
        for at in turns.iter() {
            let of_index = task.index(reader, at)?;
            lock(&by_index).insert(at, of_index);
            task.options.counters.advance(1);
        }
        Ok(())
    })?;
    for (at, of_index) in std::mem::take(&mut *lock(&by_index)) {
        let of_index: Findings = of_index;
        if STALE.iter().any(|kind| of_index.problems.contains_key(kind)) {
            drifted.insert(tables[at].name.clone());
        }
        findings.absorb(of_index);
    }
    Ok(())
}

impl Task<'_> {
    fn index(&self, reader: &Reader, at: usize) -> Result<Findings> {
        let mut findings = Findings::new(self.options.limit);
        let name = &self.configured.indexes.tables[at].name;
        if self.damaged.contains(name) {
            return Ok(findings);
        }
        match self.compare(reader, at, name, &mut findings) {
            Ok(counts) => report_counts(name, counts, &mut findings),
            Err(reason) => reason.report(Kind::Posting, &mut findings)?,
        }
        Ok(findings)
    }

    fn compare(
        &self,
        reader: &Reader,
        at: usize,
        name: &str,
        findings: &mut Findings,
    ) -> std::result::Result<IndexCounts, StopReason> {
        let Some(table) = reader.table(name.as_bytes()) else {
            findings.add(Kind::Index, || Finding::new(NOT_THERE).of_attribute(name));
            return Ok(IndexCounts::default());
        };
        let most = (1u64 << self.configured.settings.list_exponent) - 1;
        let mut comparison = IndexComparison::new(&table, name, most, self.options.new, findings)?;
        self.sorted.visit(at, &mut comparison)?;
        comparison.finish()?;
        Ok(comparison.counts)
    }
}

/// Reports an index that lacks most of its postings: it was not maintained, or built with other settings. Also reports
/// an index with keys of foreign lengths, because slapd's ordering searches need keys of the same length.
fn report_counts(name: &str, counts: IndexCounts, findings: &mut Findings) {
    let IndexCounts { required, missing, foreign } = counts;
    if foreign > 0 {
        let message = format!(
            "{foreign} of its keys have a length that its settings do not make: it was built with other settings before"
        );
        findings.add(Kind::Index, || Finding::new(message).of_attribute(name));
    }
    if missing * 2 > required {
        let message = format!(
            "it lacks {missing} of {required} postings: configured but never built, or built with other settings"
        );
        findings.add(Kind::Index, || Finding::new(message).of_attribute(name));
    }
}

/// Passes the index keys of entries to the sorter, by entry ID.
pub struct ExpectedPostings {
    pub writer: extsort::Writer,
    /// An ID had more than 32 bits, so the postings are invalid.
    pub overflow: bool,
    /// The ID of position 0.
    first: u64,
}

impl ExpectedPostings {
    pub const fn new(writer: extsort::Writer) -> Self {
        Self { writer, overflow: false, first: 0 }
    }

    /// Like [`Self::new`], for tables that are written: position 0 has ID 1, as in
    /// [`crate::numbering::Numbering::plain`].
    pub const fn from_1(writer: extsort::Writer) -> Self {
        Self { writer, overflow: false, first: 1 }
    }

    /// Passes the last postings to the sorter. Fails if an ID was too large.
    pub fn end(mut self) -> Result<()> {
        if self.overflow {
            let message = "an entry ID above 4,294,967,295: the indexes of such a database cannot be checked";
            return Err(Error::new(Code::TooMany, message));
        }
        self.writer.finish_index()
    }

    pub fn at(&mut self, id: u64) -> Posting<'_> {
        let position = u32::try_from(id.wrapping_sub(self.first)).unwrap_or_else(|_| {
            self.overflow = true;
            u32::MAX
        });
        Posting { postings: &mut self.writer, position }
    }
}
