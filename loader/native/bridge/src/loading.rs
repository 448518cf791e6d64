//! The call that adds LDIF to a running server.

use std::path::PathBuf;

use load::{OnExists, Options, Source};
use pyo3::prelude::*;

use crate::building::{PathOrDescriptor, Rejection, first_rejections};
use crate::counters::Counters;
use crate::error::one_of;
use crate::gate::{duplicate, enter};
use crate::wire::{ConnectionOptions, seconds};

#[pyclass(frozen, get_all, module = "loader._native")]
#[derive(Debug)]
pub struct Loaded {
    read: u64,
    added: u64,
    present: u64,
    replaced: u64,
    rejected: u64,
    rejections: Vec<Py<Rejection>>,
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

impl Loaded {
    fn new(py: Python<'_>, done: load::Loaded) -> PyResult<Self> {
        let rejected = done.rejections.len() as u64;
        let orphans = done.rejections.iter().all(|one| one.orphan);
        let told = done.rejections.into_iter().map(|one| (one.path, one.line, one.dn, one.reason));
        Ok(Self {
            read: done.read,
            added: done.added,
            present: done.present,
            replaced: done.replaced,
            rejected,
            rejections: first_rejections(py, told)?,
            orphans,
            stopped: done.stopped,
            before: done.before,
            left_out: done.left_out,
            deferred: done.deferred,
            named: done.named,
            reconnects: done.reconnects,
            transactions: done.transactions,
            largest: done.largest,
        })
    }
}

/// What a load does, as Python gives it.
#[derive(FromPyObject)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option by itself")]
pub struct LoadOptions {
    #[pyo3(item)]
    jobs: usize,
    #[pyo3(item)]
    batch: usize,
    #[pyo3(item)]
    transactions: bool,
    #[pyo3(item)]
    window: (usize, usize),
    #[pyo3(item)]
    exists: String,
    #[pyo3(item)]
    leave_out: Vec<String>,
    #[pyo3(item)]
    relax: bool,
    #[pyo3(item)]
    contexts: Vec<String>,
    #[pyo3(item)]
    aliases: Vec<(String, String)>,
    #[pyo3(item)]
    references: Vec<String>,
    #[pyo3(item)]
    singly: bool,
    #[pyo3(item)]
    max_rejects: u64,
    #[pyo3(item)]
    rejects: PathBuf,
    #[pyo3(item)]
    max_rate: u64,
    #[pyo3(item)]
    journal: PathBuf,
    #[pyo3(item)]
    all_uncertain: bool,
    #[pyo3(item)]
    memory: usize,
    #[pyo3(item)]
    scratch: PathBuf,
    #[pyo3(item)]
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
    link: &ConnectionOptions,
    counters: &Counters,
    wishes: LoadOptions,
) -> PyResult<Loaded> {
    let options = wishes.options()?;
    let sources = inputs.into_iter().map(source).collect::<PyResult<Vec<_>>>()?;
    let done = enter(py, &counters.0, || load::load(sources, &link.0, &options, &counters.0))?;
    Loaded::new(py, done)
}

fn source(input: PathOrDescriptor) -> PyResult<Source> {
    Ok(match input {
        PathOrDescriptor::Path(path) => Source::Path(path),
        PathOrDescriptor::Descriptor(fd) => Source::Stream(duplicate(fd)?),
    })
}
