//! Is a database sound? A ladder of looks at any back-mdb file, however old, each dearer than the one
//! before. Problems are collected, not stopped at.
//!
//! [`head`]: meta pages and tables. [`pages`]: the structure of the file. [`walk`]: entries and tree.
//! [`indexes`]: every index, made again.

pub(crate) mod ahead;
pub(crate) mod as_loaded;
pub(crate) mod descriptions;
mod entry_checker;
pub(crate) mod expected_postings;
pub(crate) mod findings;
pub(crate) mod head;
mod index_comparison;
pub(crate) mod indexes;
pub(crate) mod last_values;
pub(crate) mod names;
mod node_parents;
mod pages;
pub(crate) mod parts;
pub(crate) mod readers;
mod sampled;
pub(crate) mod sums;
pub(crate) mod walk;

use std::collections::BTreeSet;
use std::path::Path;

use codec::tables;
use common::InFile;
use ldif::Counters;
use lmdbfile::{ErrorKind, Reader, Seen};
use schema::Schema;

use crate::descriptions::AttributeDescriptions;
use crate::verify::Resources;
use crate::{Result, Settings};
pub use entry_checker::EntryChecker;
use findings::Findings;
pub use findings::{Finding, Kind, Problem};
use indexes::ConfiguredIndexes;
pub use walk::MultivalRecords;

/// How far up the ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Meta,
    Pages,
    Tree,
    Indexes,
}

impl Level {
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "meta" => Some(Self::Meta),
            "pages" => Some(Self::Pages),
            "tree" => Some(Self::Tree),
            "indexes" => Some(Self::Indexes),
            _ => None,
        }
    }
}

/// What to look at, and how.
#[derive(Debug)]
pub struct AuditOptions<'a> {
    pub path: &'a Path,
    /// The transaction on whose snapshot somebody has a reader slot; `None`: nobody writes.
    pub txn: Option<u64>,
    pub level: Level,
    /// At [`Level::Indexes`] so many entries are looked at, and nothing else; 0: all, and all that comes before.
    pub sample: u64,
    /// What slapd is told; needed from [`Level::Indexes`] on.
    pub known: Option<(&'a Schema, &'a Settings)>,
    /// The file was written by us in one go: no free pages, no range without need; but attributes may
    /// stand in pieces, as they did in the LDIF.
    pub new: bool,
    /// Pages of the file that were seen already.
    pub seen: Option<&'a Seen>,
    /// So many problems of each kind are told, all counted.
    pub limit: usize,
    pub means: &'a Resources,
    pub counters: &'a Counters,
}

/// What was found.
#[derive(Debug, Default)]
pub struct AuditReport {
    pub entries: u64,
    pub txn: u64,
    pub problems: Vec<(Kind, Problem)>,
    /// Indexes by which searches do not find what they should: they have to be made again.
    pub drifted: BTreeSet<String>,
    /// Indexes that are configured and were not looked at.
    pub left_out: BTreeSet<String>,
    /// What could not be looked at, and what is strange without being wrong.
    pub notes: Vec<String>,
}

/// For whoever copies the snapshot that the meta page `meta` of the file tells of, to note what its pages are.
pub fn seen(path: &Path, meta: &[u8]) -> lmdbfile::Result<Seen> {
    let mut reader = Reader::open_meta(path, meta)?;
    tables::set_orders(&mut reader);
    Ok(Seen::new(&reader))
}

/// Looks. An error is not the file's fault.
pub fn audit(look: &AuditOptions<'_>) -> Result<AuditReport> {
    let (mut verdict, mut findings) = (AuditReport::default(), Findings::new(look.limit));
    let opened =
        look.txn.map_or_else(|| Reader::open(look.path), |txn| Reader::open_at(look.path, txn));
    let mut reader = match opened {
        Ok(reader) => reader,
        Err(error) => {
            if error.kind == ErrorKind::Io {
                return Err(error).in_file(Some(look.path));
            }
            findings.add(Kind::Head, || (&error).into());
            verdict.problems.extend(findings.problems);
            return Ok(verdict);
        }
    };
    tables::set_orders(&mut reader);
    look.climb(&reader, &mut verdict, &mut findings)?;
    name(&reader, &mut findings);
    verdict.notes.extend(findings.notes());
    verdict.problems.extend(findings.problems);
    Ok(verdict)
}

impl AuditOptions<'_> {
    fn climb(
        &self,
        reader: &Reader,
        verdict: &mut AuditReport,
        findings: &mut Findings,
    ) -> Result<()> {
        verdict.txn = reader.txn();
        verdict.entries = reader.table(b"id2e").map_or(0, |table| table.record().entries);
        self.counters.begin("meta", 0);
        head::check(reader, findings);
        let mut damaged = BTreeSet::new();
        // A file may end before its last page when that one is free: only the walk can tell.
        if self.sample == 0 && (self.level >= Level::Pages || !reader.is_whole()) {
            damaged = pages::check(reader, self.new, self.seen, self.counters, findings)
                .in_file(Some(self.path))?;
        }
        self.counters.check()?;
        if self.level < Level::Tree {
            return Ok(());
        }
        let own = ["main", "ad2i", "dn2i", "id2e", "id2v"];
        if let Some(name) = own.iter().find(|name| damaged.contains(**name)) {
            verdict.notes.push(format!("entries not looked at: the table {name} is damaged"));
            return Ok(());
        }
        self.entries(reader, &damaged, verdict, findings)
    }

    fn entries(
        &self,
        reader: &Reader,
        damaged: &BTreeSet<String>,
        verdict: &mut AuditReport,
        findings: &mut Findings,
    ) -> Result<()> {
        let texts = descriptions::read(reader, findings);
        let Some((schema, settings)) = self.known.filter(|_| self.level >= Level::Indexes) else {
            return parts::check(self, reader, &texts, None, findings);
        };
        let asked = ConfiguredIndexes::of(reader, schema, settings)?;
        verdict.notes.extend_from_slice(&asked.notes);
        verdict.left_out.clone_from(&asked.left_out);
        for name in asked.unconfigured_indexes(reader) {
            verdict.notes.push(format!("index {name} is in the file, but not configured"));
        }
        let columns = AttributeDescriptions::new(schema, &asked.settings, &asked.indexes);
        let judge = EntryChecker::new(schema, &asked.settings, &columns, &texts);
        verdict.notes.extend(judge.notes());
        if self.sample > 0 {
            let drifted = &mut verdict.drifted;
            return sampled::check(reader, &asked, &judge, self.sample, findings, drifted);
        }
        let postings = asked.postings(self.means, self.counters);
        parts::check(self, reader, &texts, Some((&judge, &postings)), findings)?;
        let sorted = postings.finish(self.means.jobs)?;
        let (limit, jobs, counters) = (self.limit, self.means.jobs, self.counters);
        let task = indexes::Task {
            asked: &asked,
            sorted: &sorted,
            damaged,
            new: self.new,
            limit,
            jobs,
            counters,
        };
        indexes::check(&task, reader, findings, &mut verdict.drifted)
    }
}

/// Gives the entries that are told their DNs.
fn name(reader: &Reader, findings: &mut Findings) {
    let Some(dn2i) = reader.table(b"dn2i") else { return };
    for problem in findings.problems.values_mut() {
        for one in &mut problem.told {
            one.dn = one.id.and_then(|id| names::dn(&dn2i, id));
        }
    }
}
