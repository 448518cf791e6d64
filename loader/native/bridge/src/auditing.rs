//! The call that looks whether a database is sound.

use std::path::PathBuf;

use backmdb::VerifyMeans;
use backmdb::audit::{self as core, AuditOptions, Level};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::building::Database;
use crate::cloning::Seen;
use crate::counters::Counters;
use crate::error::one_of;
use crate::gate::enter;

#[pyclass(frozen, get_all, module = "loader._native")]
#[derive(Debug)]
pub struct Finding {
    message: String,
    id: Option<u64>,
    dn: Option<String>,
    attribute: Option<String>,
    table: Option<String>,
    page: Option<u64>,
}

#[pyclass(frozen, get_all, module = "loader._native")]
#[derive(Debug)]
pub struct Problem {
    kind: &'static str,
    count: u64,
    told: Vec<Py<Finding>>,
}

#[pyclass(frozen, get_all, module = "loader._native")]
#[derive(Debug)]
pub struct AuditReport {
    entries: u64,
    txn: u64,
    problems: Vec<Py<Problem>>,
    drifted: Vec<String>,
    left_out: Vec<String>,
    notes: Vec<String>,
}

#[pyfunction]
#[pyo3(signature = (path, counters, *, level, sample, txn, database, seen, limit, memory, jobs, scratch))]
pub fn audit(
    py: Python<'_>,
    path: PathBuf,
    counters: &Counters,
    level: &str,
    sample: u64,
    txn: Option<u64>,
    database: Option<&Database>,
    seen: Option<&Seen>,
    limit: usize,
    memory: usize,
    jobs: usize,
    scratch: PathBuf,
) -> PyResult<AuditReport> {
    let level = one_of(Level::from_name(level), level, "level")?;
    let known = database.map(Database::parts);
    if level == Level::Indexes && known.is_none() {
        return Err(PyValueError::new_err("indexes are made again by a configuration"));
    }
    let (means, counters) = (VerifyMeans { memory, jobs, scratch }, &counters.0);
    let (path, means) = (path.as_path(), &means);
    let seen = seen.map(|seen| &seen.0);
    let look =
        AuditOptions { path, txn, level, sample, known, new: false, seen, limit, means, counters };
    let found = enter(py, counters, || core::audit(&look))?;
    verdict(py, found)
}

fn verdict(py: Python<'_>, found: core::AuditReport) -> PyResult<AuditReport> {
    let problems = found.problems.into_iter().map(|(kind, problem)| {
        let told = problem.told.into_iter().map(|one| finding(py, one));
        let (kind, told) = (kind.as_str(), told.collect::<PyResult<_>>()?);
        Py::new(py, Problem { kind, count: problem.count, told })
    });
    let problems = problems.collect::<PyResult<_>>()?;
    let drifted = found.drifted.into_iter().collect();
    let left_out = found.left_out.into_iter().collect();
    Ok(AuditReport {
        entries: found.entries,
        txn: found.txn,
        problems,
        drifted,
        left_out,
        notes: found.notes,
    })
}

fn finding(py: Python<'_>, one: core::Finding) -> PyResult<Py<Finding>> {
    let core::Finding { message, id, dn, attribute, table, page } = one;
    Py::new(py, Finding { message, id, dn, attribute, table, page })
}
