//! The call that adds LDIF to a running server.

use std::path::PathBuf;

use load::{OnExists, Options, Source};
use pyo3::prelude::*;

use crate::building::{PathOrDescriptor, REPORTED_REJECTIONS, Rejection};
use crate::counters::Counters;
use crate::error::one_of;
use crate::gate::{duplicate, enter};
use crate::wire::{Link, seconds};

#[pyclass(frozen, get_all, module = "loader._native")]
#[derive(Debug)]
pub struct Loaded {
    read: u64,
    added: u64,
    present: u64,
    replaced: u64,
    rejected: usize,
    rejections: Vec<Rejection>,
    orphans: bool,
    stopped: bool,
    before: u64,
    left_out: u64,
    deferred: u64,
    named: u64,
    reconnects: u64,
    transactions: u64,
    largest: usize,
}

impl From<load::Loaded> for Loaded {
    fn from(done: load::Loaded) -> Self {
        let rejected = done.rejections.len();
        let orphans = done.rejections.iter().all(|one| one.orphan);
        let rejections = done.rejections.into_iter().take(REPORTED_REJECTIONS).map(|one| {
            let path = one.path.map(|path| path.as_ref().clone());
            Rejection { path, line: one.line, dn: one.dn, reason: one.reason }
        });
        Self {
            read: done.read,
            added: done.added,
            present: done.present,
            replaced: done.replaced,
            rejected,
            rejections: rejections.collect(),
            orphans,
            stopped: done.stopped,
            before: done.before,
            left_out: done.left_out,
            deferred: done.deferred,
            named: done.named,
            reconnects: done.reconnects,
            transactions: done.transactions,
            largest: done.largest,
        }
    }
}

/// What a load does, as Python gives it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct LoadOptions {
    jobs: usize,
    batch: usize,
    transactions: bool,
    window: (usize, usize),
    exists: String,
    leave_out: Vec<String>,
    relax: bool,
    contexts: Vec<String>,
    aliases: Vec<(String, String)>,
    references: Vec<String>,
    singly: bool,
    max_rejects: u64,
    rejects: PathBuf,
    max_rate: u64,
    journal: PathBuf,
    all_uncertain: bool,
    memory: usize,
    scratch: PathBuf,
    patience: f64,
}

impl LoadOptions {
    fn options(self) -> PyResult<Options> {
        let exists = OnExists::from_name(&self.exists);
        Ok(Options {
            jobs: self.jobs.max(1),
            batch: self.batch,
            transactions: self.transactions,
            window: (self.window.0.max(1), self.window.1.max(self.window.0).max(1)),
            exists: one_of(exists, &self.exists, "way with entries that exist")?,
            leave_out: self.leave_out,
            relax: self.relax,
            contexts: self.contexts,
            aliases: self.aliases,
            references: self.references,
            singly: self.singly,
            max_rejects: self.max_rejects,
            rejects: self.rejects,
            max_rate: self.max_rate,
            journal: self.journal,
            all_uncertain: self.all_uncertain,
            memory: self.memory,
            scratch: self.scratch,
            patience: seconds(self.patience)?,
        })
    }
}

#[pyfunction]
pub fn add(
    py: Python<'_>,
    inputs: Vec<PathOrDescriptor>,
    link: Link,
    counters: &Counters,
    options: LoadOptions,
) -> PyResult<Loaded> {
    let (link, options) = (link.options()?, options.options()?);
    let sources = inputs.into_iter().map(source).collect::<PyResult<Vec<_>>>()?;
    let work = || load::load(sources, &link, &options, &counters.0);
    Ok(enter(py, &counters.0, work)?.into())
}

fn source(input: PathOrDescriptor) -> PyResult<Source> {
    Ok(match input {
        PathOrDescriptor::Path(path) => Source::Path(path),
        PathOrDescriptor::Descriptor(fd) => Source::Stream(duplicate(fd)?),
    })
}
