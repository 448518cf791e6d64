//! The calls that tell what the indexes of a database take, and which entries share their entryUUID.

use std::path::PathBuf;

use backmdb::VerifyMeans;
use pyo3::prelude::*;

use crate::counters::Counters;
use crate::gate::enter;

#[pyclass(frozen, get_all, module = "loader._native")]
#[derive(Debug, Clone)]
pub struct IndexCost {
    name: String,
    pages: u64,
    tree_pages: u64,
    keys: u64,
    records: u64,
    ranges: u64,
    presence: u64,
}

#[pyclass(frozen, get_all, module = "loader._native")]
#[derive(Debug)]
pub struct IndexCosts {
    page_size: usize,
    pages: u64,
    tables: Vec<IndexCost>,
}

#[pyfunction]
#[pyo3(signature = (path, counters, *, txn))]
pub fn index_costs(
    py: Python<'_>,
    path: PathBuf,
    counters: &Counters,
    txn: u64,
) -> PyResult<IndexCosts> {
    let found = enter(py, &counters.0, || backmdb::index_costs(&path, txn, &counters.0))?;
    let tables = found.tables.into_iter().map(told).collect();
    Ok(IndexCosts { page_size: found.page_size, pages: found.pages, tables })
}

fn told(one: backmdb::IndexCost) -> IndexCost {
    let backmdb::IndexCost { name, pages, tree_pages, keys, records, ranges, presence } = one;
    IndexCost { name, pages, tree_pages, keys, records, ranges, presence }
}

/// Of each: the entryUUID, and two DNs.
#[pyfunction]
#[pyo3(signature = (path, counters, *, txn, limit, memory, jobs, scratch))]
pub fn shared_uuids(
    py: Python<'_>,
    path: PathBuf,
    counters: &Counters,
    txn: Option<u64>,
    limit: usize,
    memory: usize,
    jobs: usize,
    scratch: PathBuf,
) -> PyResult<Vec<(String, String, String)>> {
    let means = VerifyMeans { memory, jobs, scratch };
    let search = || backmdb::shared_uuids(&path, txn, limit, &means, &counters.0);
    let found = enter(py, &counters.0, search)?;
    Ok(found.into_iter().map(|one| (one.uuid, one.dns.0, one.dns.1)).collect())
}
