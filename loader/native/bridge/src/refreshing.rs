//! The calls that make a database from another's records: bring it up to date, make its indexes again, or make it for
//! another slapd.

use std::collections::BTreeMap;
use std::path::PathBuf;

use backmdb::changes::{ChangeCounts, SyncResult};
use backmdb::transfer::Records;
use backmdb::{Options, ValueCheck, VerifyMeans};
use pyo3::prelude::*;

use crate::building::Database;
use crate::counters::Counters;
use crate::gate::{duplicate, enter};

#[pyclass(frozen, get_all, module = "loader._native")]
#[derive(Debug)]
pub struct Refreshed {
    added: u64,
    modified: u64,
    renamed: u64,
    deleted: u64,
    kept: u64,
    unsettled: Vec<Vec<u8>>,
}

impl From<ChangeCounts> for Refreshed {
    fn from(done: ChangeCounts) -> Self {
        let ChangeCounts { added, modified, renamed, deleted, kept, unsettled } = done;
        let unsettled = unsettled.iter().map(|uuid| uuid.to_be_bytes().to_vec()).collect();
        Self { added, modified, renamed, deleted, kept, unsettled }
    }
}

#[pyfunction]
#[pyo3(signature = (
    directory, database, counters, *, changed, present, deleted, lost, reached, claimed, allowed, now, memory, jobs,
    scratch
))]
pub fn refresh(
    py: Python<'_>,
    directory: PathBuf,
    database: &Database,
    counters: &Counters,
    changed: Vec<PathBuf>,
    present: Option<PathBuf>,
    deleted: Vec<PathBuf>,
    lost: Vec<[u8; 16]>,
    reached: Vec<String>,
    claimed: Vec<String>,
    allowed: i32,
    now: String,
    memory: usize,
    jobs: usize,
    scratch: PathBuf,
) -> PyResult<Refreshed> {
    let lost = lost.into_iter().map(u128::from_be_bytes).collect();
    let told = SyncResult { changed, present, deleted, lost, reached };
    let options = Options {
        now,
        first: 0,
        write_context: false,
        claimed: Some(claimed),
        values: ValueCheck::Skip,
        check_schema: false,
        complete_naming: false,
        account: false,
        file_urls: false,
        memory,
        jobs,
        rejects: scratch.join("rejects.ldif"),
        scratch,
        max_rejects: 0,
    };
    let (known, allowed) = (database.parts(), duplicate(allowed)?);
    let work = || ::refresh::refresh(&directory, known, &options, &told, allowed, &counters.0);
    Ok(enter(py, &counters.0, work)?.into())
}

#[pyclass(frozen, get_all, module = "loader._native")]
#[derive(Debug)]
pub struct Reindexed {
    entries: u64,
    tables: BTreeMap<String, u64>,
}

#[pyfunction]
#[pyo3(signature = (path, database, counters, *, attributes, memory, jobs, scratch))]
pub fn reindex(
    py: Python<'_>,
    path: PathBuf,
    database: &Database,
    counters: &Counters,
    attributes: Vec<String>,
    memory: usize,
    jobs: usize,
    scratch: PathBuf,
) -> PyResult<Reindexed> {
    let (known, means) = (database.parts(), VerifyMeans { memory, jobs, scratch });
    let work = || ::backmdb::reindex::reindex(&path, known, &attributes, &means, &counters.0);
    let made = enter(py, &counters.0, work)?;
    Ok(Reindexed { entries: made.entries, tables: made.tables })
}

#[pyclass(frozen, get_all, module = "loader._native")]
#[derive(Debug)]
pub struct Transferred {
    entries: u64,
    checksum: String,
    tables: BTreeMap<String, u64>,
    misfits: Vec<(String, String, u64)>,
}

#[pyfunction]
#[pyo3(signature = (path, out, database, counters, *, txn, memory, jobs, scratch))]
pub fn transfer(
    py: Python<'_>,
    path: PathBuf,
    out: PathBuf,
    database: &Database,
    counters: &Counters,
    txn: Option<u64>,
    memory: usize,
    jobs: usize,
    scratch: PathBuf,
) -> PyResult<Transferred> {
    let (known, means) = (database.parts(), VerifyMeans { memory, jobs, scratch });
    let work = || ::backmdb::transfer::transfer((&path, txn), &out, known, &means, &counters.0);
    let made = enter(py, &counters.0, work)?;
    let checksum = text_of(made.records);
    let misfits = made.misfits.into_iter().map(|one| (one.attribute, one.syntax, one.count));
    let misfits = misfits.collect();
    Ok(Transferred { entries: made.entries, checksum, tables: made.tables, misfits })
}

#[pyfunction]
#[pyo3(signature = (path, counters, *, jobs))]
pub fn records_checksum(
    py: Python<'_>,
    path: PathBuf,
    counters: &Counters,
    jobs: usize,
) -> PyResult<String> {
    let work = || ::backmdb::transfer::records(&path, jobs, &counters.0);
    Ok(text_of(enter(py, &counters.0, work)?))
}

fn text_of(records: Records) -> String {
    format!("{}-{:032x}", records.count, records.sum)
}
