//! Fourth level of the audit: computes every index from the entries and compares it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use codec::tables;
use extsort::{KeySize, Postings, Sorted};
use ldif::Counters;
use lmdbfile::Reader;
use schema::Schema;

use super::findings::{Finding, Findings, Kind};
use super::index_comparison::{IndexComparison, IndexCounts};
use super::ranges::{StopReason, side_by_side};
use crate::entry::Posting;
use crate::indexes::Indexes;
use crate::{Code, Error, Result, Settings, lock, verify};

pub const NOT_THERE: &str = "configured, but not in the file: no slapd has opened it since";
pub const TOO_LONG: &str = "more IDs than slapd's idlexp allows: it reads beyond its buffer";
/// Problems of an index that make searches miss entries, or worse.
const STALE: [Kind; 4] = [Kind::Index, Kind::Posting, Kind::Missing, Kind::TooLong];

/// The configured indexes, without those that cannot be checked.
pub struct ConfiguredIndexes {
    pub settings: Settings,
    pub indexes: Indexes,
    /// What is not checked, and why.
    pub notes: Vec<String>,
    /// Tables of configured indexes that are not checked.
    pub left_out: BTreeSet<String>,
}

impl ConfiguredIndexes {
    /// `settings`: as configured; the version that the file shows takes precedence.
    pub fn of(reader: &Reader, schema: &Schema, settings: &Settings) -> Result<Self> {
        let has_id2v = reader.table(b"id2v").is_some();
        let mut kept = Settings { of_2_4: !has_id2v, has_id2v, ..settings.clone() };
        let (mut notes, mut left_out) = (Vec::new(), BTreeSet::new());
        let all = std::mem::take(&mut kept.indexes);
        for one in all {
            kept.indexes.push(one);
            let Err(error) = Indexes::read(schema, &kept) else { continue };
            if error.code != Code::Unproven {
                return Err(error);
            }
            left_out.extend(kept.indexes.pop().and_then(|(name, _)| table_name(schema, &name)));
            notes.push(format!("not looked at: {}", error.message));
        }
        let indexes = Indexes::read(schema, &kept)?;
        Ok(Self { settings: kept, indexes, notes, left_out })
    }

    pub fn postings(&self, means: &verify::Resources, counters: &Counters) -> Postings {
        let size = |long| if long { KeySize::UpToEight } else { KeySize::Four };
        let sizes: Vec<_> = self.indexes.tables.iter().map(|table| size(table.long)).collect();
        Postings::new(&sizes, means.memory, &means.scratch, counters.flag())
    }

    /// Returns the tables of the file for which no index is configured.
    pub fn unconfigured_indexes(&self, reader: &Reader) -> Vec<String> {
        let own = tables::ALL.iter().map(|table| table.name.as_bytes());
        let known = self.indexes.tables.iter().map(|table| table.name.as_bytes());
        let left_out = self.left_out.iter().map(String::as_bytes);
        let known: BTreeSet<&[u8]> = own.chain(known).chain(left_out).collect();
        let names = reader.names().filter(|name| !known.contains(name));
        names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    }
}

/// Returns an index's table, named after the attribute type whatever name the configuration uses.
pub fn table_name(schema: &Schema, description: &str) -> Option<String> {
    let described = schema.describe(description.as_bytes()).ok()?;
    Some(schema.get(described.attribute).name.clone())
}

/// The inputs that all workers share.
pub struct Task<'a> {
    pub asked: &'a ConfiguredIndexes,
    pub sorted: &'a Sorted,
    pub damaged: &'a BTreeSet<String>,
    pub new: bool,
    pub limit: usize,
    pub jobs: usize,
    pub counters: &'a Counters,
}

/// Checks all indexes in parallel; findings are in the order of the configuration. Indexes to be rebuilt are added to
/// `drifted`.
pub fn check(task: &Task<'_>, reader: &Reader, findings: &mut Findings, drifted: &mut BTreeSet<String>) -> Result<()> {
    let tables = &task.asked.indexes.tables;
    task.counters.begin("indexes", tables.len() as u64);
    let found = Mutex::new(BTreeMap::new());
    side_by_side(reader, task.jobs, tables.len(), |reader, turns| {
        for at in turns.iter() {
            let of_index = task.index(reader, at)?;
            lock(&found).insert(at, of_index);
            task.counters.advance(1);
        }
        Ok(())
    })?;
    for (at, of_index) in std::mem::take(&mut *lock(&found)) {
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
        let mut findings = Findings::new(self.limit);
        let name = &self.asked.indexes.tables[at].name;
        if self.damaged.contains(name) {
            return Ok(findings);
        }
        match self.compare(reader, at, name, &mut findings) {
            Ok(tally) => whole(name, tally, &mut findings),
            Err(StopReason::Failed(error)) => return Err(*error),
            Err(StopReason::Damage(finding)) => findings.add(Kind::Posting, || *finding),
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
        let most = (1u64 << self.asked.settings.list_exponent) - 1;
        let mut held = IndexComparison::new(&table, name, most, self.new, findings)?;
        self.sorted.visit(at, &mut held)?;
        held.finish()?;
        Ok(held.tally)
    }
}

/// Reports an index that lacks most of its postings: it was not maintained, or built with other settings. If it mixes
/// keys of different lengths, slapd's ordering searches go wrong.
fn whole(name: &str, counts: IndexCounts, findings: &mut Findings) {
    let IndexCounts { wanted, missing, foreign } = counts;
    if foreign > 0 {
        let message = format!(
            "{foreign} of its keys have a length that its settings do not make: it was built with other settings before"
        );
        findings.add(Kind::Index, || Finding::new(message).of_attribute(name));
    }
    if missing * 2 > wanted {
        let message = format!(
            "it lacks {missing} of {wanted} postings: configured but never built, or built with other settings"
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

    /// For tables to be written: the first ID is 1, as in [`crate::numbering::Numbering::plain`].
    pub const fn from_1(writer: extsort::Writer) -> Self {
        Self { writer, overflow: false, first: 1 }
    }

    /// Hands over all postings. Fails if an ID was too large.
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
