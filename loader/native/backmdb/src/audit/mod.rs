//! Checks any back-mdb file, however old, in levels, each slower than the previous one. Problems are collected; they do
//! not end the check.
//!
//! [`structure`]: meta pages, tables and pages. [`walk`]: entries and tree. [`indexes`]: every
//! index, computed anew.

pub(crate) mod as_loaded;
mod entry_checker;
pub(crate) mod findings;
mod index_comparison;
pub(crate) mod indexes;
pub(crate) mod last_values;
pub(crate) mod node_parents;
pub(crate) mod ranges;
mod sampled;
pub(crate) mod structure;
pub(crate) mod walk;

use std::collections::BTreeSet;
use std::path::Path;

use codec::{dn2i, tables};
use common::InFile;
use ldif::Counters;
use lmdbfile::{ErrorKind, Reader, Seen, TableReader};
use schema::Schema;

use crate::descriptions::AttributeDescriptions;
use crate::verify::Resources;
use crate::{Result, Settings};
pub use entry_checker::EntryChecker;
use findings::Findings;
pub use findings::{Finding, Kind, Problem};
use indexes::ConfiguredIndexes;
pub use walk::MultivalRecords;

common::named!(
    /// How much is checked; each level includes the previous ones.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Level {
        Meta = "meta",
        Pages = "pages",
        Tree = "tree",
        Indexes = "indexes",
    }
);

/// The file to check, and the options of the check.
pub struct AuditOptions<'a> {
    pub path: &'a Path,
    /// The transaction of a snapshot that a reader slot protects; `None`: nobody writes.
    pub txn: Option<u64>,
    pub level: Level,
    /// At [`Level::Indexes`]: number of entries to check instead of everything; 0 checks all, with the previous levels.
    pub sample: u64,
    /// Schema and configuration of slapd; required from [`Level::Indexes`] on.
    pub known: Option<(&'a Schema, &'a Settings)>,
    /// This build wrote the file in one go: it has no free pages and no needless range, but attributes may stand in
    /// pieces, as they did in the LDIF.
    pub new: bool,
    /// Pages of the file that were checked while it was copied.
    pub seen: Option<&'a Seen>,
    /// Problems of each kind that are reported; all are counted.
    pub limit: usize,
    pub means: &'a Resources,
    pub counters: &'a Counters,
}

/// The result of an audit.
#[derive(Debug, Default)]
pub struct AuditReport {
    pub entries: u64,
    pub txn: u64,
    pub problems: Vec<(Kind, Problem)>,
    /// Indexes by which searches miss entries; they must be rebuilt.
    pub drifted: BTreeSet<String>,
    /// Configured indexes that were not checked.
    pub left_out: BTreeSet<String>,
    /// What could not be checked, and oddities that are not errors.
    pub notes: Vec<String>,
}

/// Prepares a record of checked pages, for a copy of the snapshot that the meta page `meta` describes.
pub fn seen(path: &Path, meta: &[u8]) -> lmdbfile::Result<Seen> {
    Ok(Seen::new(&tables::with_orders(Reader::open_meta(path, meta)?)))
}

/// Audits the file. An `Err` is not the file's fault.
pub fn audit(look: &AuditOptions<'_>) -> Result<AuditReport> {
    let (mut verdict, mut findings) = (AuditReport::default(), Findings::new(look.limit));
    // The sampled keys are scattered over a new file that is in the page cache, so read-ahead is useless.
    let opened = if look.new && look.sample > 0 {
        Reader::open_scattered(look.path)
    } else {
        Reader::open_at(look.path, look.txn)
    };
    let reader = match opened {
        Ok(reader) => tables::with_orders(reader),
        Err(error) => {
            if error.kind == ErrorKind::Io {
                return Err(error).in_file(Some(look.path));
            }
            findings.add(Kind::Head, || (&error).into());
            verdict.problems.extend(findings.problems);
            return Ok(verdict);
        }
    };
    look.climb(&reader, &mut verdict, &mut findings)?;
    name(&reader, &mut findings);
    verdict.notes.extend(findings.notes());
    verdict.problems.extend(findings.problems);
    Ok(verdict)
}

impl AuditOptions<'_> {
    fn climb(&self, reader: &Reader, verdict: &mut AuditReport, findings: &mut Findings) -> Result<()> {
        verdict.txn = reader.txn();
        verdict.entries = reader.table(b"id2e").map_or(0, |table| table.record().entries);
        self.counters.begin("meta", 0);
        structure::head(reader, findings);
        let mut damaged = BTreeSet::new();
        // A file may end before its last page if that page is free; only the walk can tell.
        if self.sample == 0 && (self.level >= Level::Pages || !reader.is_whole()) {
            damaged =
                structure::pages(reader, self.new, self.seen, self.counters, findings).in_file(Some(self.path))?;
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
        let texts = structure::descriptions(reader, findings);
        let Some((schema, settings)) = self.known.filter(|_| self.level >= Level::Indexes) else {
            return walk::check(self, reader, &texts, None, findings);
        };
        if self.new && settings.has_id2v && reader.table(b"id2v").is_none() {
            findings.add(Kind::Table, || Finding::new("the table is missing").of_table("id2v"));
        }
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
            return sampled::check(self, reader, &asked, &judge, findings, drifted);
        }
        let postings = asked.postings(self.means, self.counters);
        walk::check(self, reader, &texts, Some((&judge, &postings)), findings)?;
        let sorted = postings.finish(self.means.jobs)?;
        let (limit, jobs, counters) = (self.limit, self.means.jobs, self.counters);
        let task = indexes::Task { asked: &asked, sorted: &sorted, damaged, new: self.new, limit, jobs, counters };
        indexes::check(&task, reader, findings, &mut verdict.drifted)
    }
}

/// Adds the DNs of the reported entries.
fn name(reader: &Reader, findings: &mut Findings) {
    let Some(dn2i) = reader.table(b"dn2i") else { return };
    for problem in findings.problems.values_mut() {
        for one in &mut problem.told {
            one.dn = one.id.and_then(|id| dn(&dn2i, id));
        }
    }
}

/// More RDNs than any DN has: slapd limits DNs to 8192 bytes.
const DEEPEST: usize = 4096;

/// Returns the DN of a node, as far up as dn2i has its ancestors: the tree may be damaged.
pub fn dn(dn2i: &TableReader<'_>, mut id: u64) -> Option<String> {
    let mut parts = Vec::new();
    while id != 0 && parts.len() < DEEPEST {
        let record = dn2i.get(&id.to_ne_bytes()).ok().flatten();
        let Some(node) = record.as_deref().and_then(dn2i::read).filter(|one| one.child.is_none()) else {
            break;
        };
        parts.push(String::from_utf8_lossy(node.pretty).into_owned());
        id = node.id;
    }
    let whole = id == 0;
    if parts.is_empty() {
        return None;
    }
    if !whole {
        parts.push(format!("(ID {id}) ..."));
    }
    Some(parts.join(","))
}
