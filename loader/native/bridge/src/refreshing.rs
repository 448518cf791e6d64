//! Refreshes a database, replays a log on it, rebuilds its indexes, and converts its records for another release.

use std::collections::BTreeMap;
use std::path::PathBuf;

use backmdb::changes::{ChangeCounts, SyncResult};
use backmdb::transfer::{self as core, Records};
use backmdb::{Options, VerifyMeans, reindex as indexes};
use pyo3::prelude::*;

use crate::building::{Database, Misfits, Resources, misfits_of};
use crate::gate::{Counters, Descriptor};
use crate::results::{argument, record};

record!(Refreshed from ChangeCounts {
    added: u64,
    modified: u64,
    renamed: u64,
    deleted: u64,
    kept: u64,
    unsettled: Vec<Vec<u8>> =
        unsettled.iter().map(|uuid| uuid.to_be_bytes().to_vec()).collect(),
});

/// The fields of `loader.sinks.changing.SyncResult`.
#[derive(FromPyObject)]
pub struct Sent {
    changed: Vec<PathBuf>,
    present: Option<PathBuf>,
    deleted: Vec<PathBuf>,
    lost: Vec<[u8; 16]>,
    reached: Vec<String>,
    claimed: Vec<String>,
}

#[pyfunction]
pub fn refresh(
    directory: PathBuf,
    database: &Database,
    sent: Sent,
    now: String,
    limits: Resources,
    allowed: Descriptor,
    counters: &Counters,
) -> PyResult<Refreshed> {
    let VerifyMeans { memory, jobs, scratch } = limits.0;
    let Sent { changed, present, deleted, lost, reached, claimed } = sent;
    let lost = lost.into_iter().map(u128::from_be_bytes).collect();
    let sync = SyncResult { changed, present, deleted, lost, reached };
    let options = Options {
        now,
        claimed: Some(claimed),
        memory,
        jobs,
        rejects: scratch.join("rejects.ldif"),
        scratch,
        // `check_schema` is off, because the provider has checked its entries.
        ..Options::default()
    };
    counters.run(|counters| ::refresh::refresh(&directory, database.parts(), &options, &sync, allowed.0, counters))
}

argument!(
    /// The fields of `loader.sinks.changing.ReplayTask`.
    ReplayOptions for ::replay::Options {
        reached: Vec<String>,
        window: String,
        until: String,
        until_start: String,
        skip: Vec<String>,
        log_success: bool,
        changed: PathBuf,
        deleted: PathBuf,
        scratch: PathBuf,
        memory: usize,
    }
);

record!(Gap from ::replay::Gap {
    dn: String,
    csn: String,
    start: String,
    reason: String,
    proven: String,
});

record!(Replayed from ::replay::Replayed {
    applied: u64,
    changed: u64,
    deleted: u64,
    last: String,
    context_csns: Vec<String>,
    until: String,
    log_start: String,
    log_end: String,
    min_csns: Vec<String>,
    created: String,
    overlaps: Vec<String> = overlaps.into_iter().collect(),
    gaps: Vec<Gap> = gaps.into_iter().map(Gap::from).collect(),
    dependent: Vec<(String, String)>,
    skipped: u64,
});

#[pyfunction]
pub fn replay(
    path: PathBuf,
    database: &Database,
    log: Vec<PathBuf>,
    options: ReplayOptions,
    counters: &Counters,
) -> PyResult<Replayed> {
    counters.run(|counters| ::replay::replay(&path, database.parts(), &log, &options.0, counters))
}

argument!(
    /// The fields of `loader.sinks.changing.LogQuery`.
    LogQuery for ::replay::query::Query {
        since: String,
        since_start: String,
        until: String,
        until_start: String,
        bases: Vec<String>,
        author: Option<String>,
        last: usize,
    }
);

record!(FoundChanges from ::replay::query::Found {
    text: Vec<u8>,
    matching: Vec<bool>,
    log_start: String,
});

#[pyfunction]
pub fn logged(log: Vec<PathBuf>, query: LogQuery, counters: &Counters) -> PyResult<FoundChanges> {
    counters.run(|counters| ::replay::query::query(&log, &query.0, counters))
}

#[pyfunction]
pub fn reindex(
    path: PathBuf,
    database: &Database,
    attributes: Vec<String>,
    limits: Resources,
    counters: &Counters,
) -> PyResult<()> {
    counters.run(|counters| indexes::reindex(&path, database.parts(), &attributes, &limits.0, counters))
}

record!(Transferred from core::Transferred {
    entries: u64,
    checksum: String = text_of(checksum),
    tables: BTreeMap<String, u64>,
    misfits: Misfits = misfits_of(misfits),
});

#[pyfunction]
pub fn transfer(
    path: PathBuf,
    txn: Option<u64>,
    out: PathBuf,
    database: &Database,
    limits: Resources,
    counters: &Counters,
) -> PyResult<Transferred> {
    counters.run(|counters| core::transfer((&path, txn), &out, database.parts(), &limits.0, counters))
}

#[pyfunction]
pub fn records_checksum(path: PathBuf, counters: &Counters, jobs: usize) -> PyResult<String> {
    counters.run(|counters| core::records(&path, jobs, counters).map(text_of))
}

fn text_of(records: Records) -> String {
    format!("{}-{:032x}", records.count, records.sum)
}
