//! Checks any back-mdb file, however old, in levels, each slower than the previous level. Problems are collected, and
//! do not end the check.
//!
//! [`structure`] checks meta pages, tables and pages; [`walk`] entries and tree. [`indexes`] computes every index from
//! the entries, and compares it with the index in the file.

pub(crate) mod as_loaded;
mod entry_checker;
pub(crate) mod findings;
mod index_comparison;
pub(crate) mod indexes;
mod last_values;
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
    /// The parts of a file that are checked. Each level includes the previous levels.
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
    /// The transaction of a snapshot that a reader slot protects; `None` if nobody writes to the file.
    pub txn: Option<u64>,
    pub level: Level,
    /// At [`Level::Indexes`]: the number of entries to check instead of all pages and entries. 0: checks everything.
    pub sample: u64,
    /// Schema and configuration of slapd; required for [`Level::Indexes`].
    pub known: Option<(&'a Schema, &'a Settings)>,
    /// A build has just written the file: it must have no free pages and no needless ranges, but an entry may have an
    /// attribute in several pieces, as in the LDIF.
    pub new: bool,
    /// Pages that were checked while the file was copied.
    pub seen: Option<&'a Seen>,
    /// Maximum number of reported problems of each kind. All problems are counted.
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
    /// Names of indexes by which searches may miss entries. They must be rebuilt.
    pub drifted: BTreeSet<String>,
    /// Names of configured indexes that were not checked.
    pub left_out: BTreeSet<String>,
    /// Notes about parts that could not be checked, and about oddities that are no errors.
    pub notes: Vec<String>,
}

/// Returns an empty record of checked pages, for a copy of the snapshot that the meta page `meta` describes.
pub fn seen(path: &Path, meta: &[u8]) -> lmdbfile::Result<Seen> {
    Ok(Seen::new(&tables::with_orders(Reader::open_meta(path, meta)?)))
}

/// Audits the file. Damage of the file is reported; an `Err` has another cause.
pub fn audit(options: &AuditOptions<'_>) -> Result<AuditReport> {
    let (mut report, mut findings) = (AuditReport::default(), Findings::new(options.limit));
    // A new file is in the page cache, and the sampled keys are scattered over the file, so read-ahead is useless.
    let opened = if options.new && options.sample > 0 {
        Reader::open_scattered(options.path)
    } else {
        Reader::open_at(options.path, options.txn)
    };
    match opened {
        Ok(reader) => {
            let reader = tables::with_orders(reader);
            options.levels(&reader, &mut report, &mut findings)?;
            add_dns(&reader, &mut findings);
        }
        Err(error) if error.kind == ErrorKind::Io => return Err(error).in_file(Some(options.path)),
        Err(error) => findings.add(Kind::Head, || (&error).into()),
    }
    report.notes.extend(findings.notes());
    report.problems.extend(findings.problems);
    Ok(report)
}

impl AuditOptions<'_> {
    fn levels(&self, reader: &Reader, report: &mut AuditReport, findings: &mut Findings) -> Result<()> {
        report.txn = reader.txn();
        report.entries = reader.table(b"id2e").map_or(0, |table| table.record().entries);
        self.counters.begin("meta", 0);
        structure::head(reader, findings);
        let mut damaged = BTreeSet::new();
        // A file may lack its last pages if they are free. Only reading all pages shows whether they are.
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
            report.notes.push(format!("entries not looked at: the table {name} is damaged"));
            return Ok(());
        }
        self.entries(reader, &damaged, report, findings)
    }

    fn entries(
        &self,
        reader: &Reader,
        damaged: &BTreeSet<String>,
        report: &mut AuditReport,
        findings: &mut Findings,
    ) -> Result<()> {
        let texts = structure::descriptions(reader, findings);
        let Some((schema, settings)) = self.known.filter(|_| self.level >= Level::Indexes) else {
            return walk::check(self, reader, &texts, None, findings);
        };
        if self.new && settings.has_id2v && reader.table(b"id2v").is_none() {
            findings.add(Kind::Table, || Finding::new("the table is missing").of_table("id2v"));
        }
        let configured = ConfiguredIndexes::of(reader, schema, settings)?;
        report.notes.extend_from_slice(&configured.notes);
        report.left_out.clone_from(&configured.left_out);
        for name in configured.unconfigured_indexes(reader) {
            report.notes.push(format!("index {name} is in the file, but not configured"));
        }
        let columns = AttributeDescriptions::new(schema, &configured.settings, &configured.indexes);
        let checker = EntryChecker::new(schema, &configured.settings, &columns, &texts);
        report.notes.extend(checker.notes());
        if self.sample > 0 {
            return sampled::check(self, reader, &configured, &checker, findings, &mut report.drifted);
        }
        let postings = configured.postings(self.means, self.counters);
        walk::check(self, reader, &texts, Some((&checker, &postings)), findings)?;
        let sorted = postings.finish(self.means.jobs)?;
        let task = indexes::Task { options: self, configured: &configured, sorted: &sorted, damaged };
        indexes::check(&task, reader, findings, &mut report.drifted)
    }
}

/// Adds the DNs of the entries to the reported findings.
fn add_dns(reader: &Reader, findings: &mut Findings) {
    let Some(dn2i) = reader.table(b"dn2i") else { return };
    for finding in findings.problems.values_mut().flat_map(|problem| &mut problem.told) {
        finding.dn = finding.id.and_then(|id| dn(&dn2i, id));
    }
}

/// A number of RDNs that no DN exceeds: slapd limits DNs to 8192 bytes.
const DEEPEST: usize = 4096;

/// Returns the DN of a node. If the tree is damaged, the DN ends with the ID of the first ancestor that dn2i lacks.
pub fn dn(dn2i: &TableReader<'_>, mut id: u64) -> Option<String> {
    let mut parts = Vec::new();
    while id != 0 && parts.len() < DEEPEST {
        let record = dn2i.get(&id.to_ne_bytes()).ok().flatten();
        let Some(node) = record.as_deref().and_then(dn2i::read).filter(|node| node.child.is_none()) else {
            break;
        };
        parts.push(String::from_utf8_lossy(node.pretty).into_owned());
        id = node.id;
    }
    if parts.is_empty() {
        return None;
    }
    if id != 0 {
        parts.push(format!("(ID {id}) ..."));
    }
    Some(parts.join(","))
}
