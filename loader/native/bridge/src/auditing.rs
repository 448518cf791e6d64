//! Calls that audit a database, measure its indexes, and find entries with the same entryUUID.

use std::path::PathBuf;

use backmdb::audit::{self as core, AuditOptions, Level};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::building::{Database, Resources};
use crate::cloning::Seen;
use crate::error::one_of;
use crate::gate::Counters;
use crate::results::record;

/// The fields of `loader.mdb.verify.Finding`.
type Finding = (String, Option<u64>, Option<String>, Option<String>, Option<String>, Option<u64>);

fn finding(found: core::Finding) -> Finding {
    let core::Finding { message, id, dn, attribute, table, page } = found;
    (message, id, dn, attribute, table, page)
}

record!(AuditReport from core::AuditReport {
    entries: u64,
    txn: u64,
    problems: Vec<(&'static str, u64, Vec<Finding>)> = problems
        .into_iter()
        .map(|(kind, all)| (kind.as_str(), all.count, all.told.into_iter().map(finding).collect()))
        .collect(),
    drifted: Vec<String> = drifted.into_iter().collect(),
    left_out: Vec<String> = left_out.into_iter().collect(),
    notes: Vec<String>,
});

#[pyfunction]
pub fn audit(
    path: PathBuf,
    counters: &Counters,
    limits: Resources,
    level: &str,
    sample: u64,
    txn: Option<u64>,
    database: Option<&Database>,
    seen: Option<&Seen>,
    limit: usize,
) -> PyResult<AuditReport> {
    let level = one_of(Level::from_name(level), level, "level")?;
    let known = database.map(Database::parts);
    if level == Level::Indexes && known.is_none() {
        return Err(PyValueError::new_err("auditing indexes requires a database configuration"));
    }
    let (path, means, seen) = (path.as_path(), &limits.0, seen.map(|seen| &seen.0));
    counters.run(|counters| {
        let new = false;
        core::audit(&AuditOptions { path, txn, level, sample, known, new, seen, limit, means, counters })
    })
}

record!(IndexCost from backmdb::IndexCost {
    name: String,
    pages: u64,
    keys: u64,
    records: u64,
    ranges: u64,
});

record!(IndexCosts from backmdb::IndexCosts {
    page_size: usize,
    pages: u64,
    tables: Vec<IndexCost> = tables.into_iter().map(IndexCost::from).collect(),
});

#[pyfunction]
pub fn index_costs(path: PathBuf, counters: &Counters, txn: u64) -> PyResult<IndexCosts> {
    counters.run(|counters| backmdb::index_costs(&path, txn, counters))
}

/// Returns each entryUUID that several entries share, with two of their DNs.
#[pyfunction]
pub fn shared_uuids(
    path: PathBuf,
    counters: &Counters,
    limits: Resources,
    txn: Option<u64>,
    limit: usize,
) -> PyResult<Vec<(String, String, String)>> {
    let means = limits.0;
    let found: Vec<_> = counters.run(|counters| backmdb::shared_uuids(&path, txn, limit, &means, counters))?;
    Ok(found.into_iter().map(|one| (one.uuid, one.dns.0, one.dns.1)).collect())
}
