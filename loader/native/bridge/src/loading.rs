//! Adds entries from LDIF to a running server.

use std::path::PathBuf;

use load::{OnExists, Source};
use pyo3::prelude::*;

use crate::building::{Rejection, reported};
use crate::error::one_of;
use crate::gate::{Counters, Descriptor};
use crate::results::{argument, record};
use crate::wire::{Link, seconds};

record!(Loaded from load::Loaded {
    read: u64,
    added: u64,
    present: u64,
    replaced: u64,
    rejections: Vec<Rejection> = reported(rejections),
    stopped: bool,
    before: u64,
    left_out: u64,
    deferred: u64,
    named: u64,
    reconnects: u64,
    transactions: u64,
    largest: usize,
} beside {
    rejected: usize = rejections.len(),
    orphans: bool = rejections.iter().all(|rejection| rejection.orphan),
});

argument!(
    /// `loader.sinks.ldap.LoadOptions`.
    LoadOptions for load::Options {
        jobs: usize = jobs.max(1),
        batch: usize,
        transactions: bool,
        window: (usize, usize) = (window.0.max(1), window.1.max(window.0).max(1)),
        exists: String =
            one_of(OnExists::from_name(&exists), &exists, "valid treatment of existing entries")?,
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
        patience: f64 = seconds(patience)?,
    }
);

#[derive(FromPyObject)]
pub enum Input {
    Descriptor(Descriptor),
    Path(PathBuf),
}

#[pyfunction]
pub fn add(inputs: Vec<Input>, link: Link, counters: &Counters, options: LoadOptions) -> PyResult<Loaded> {
    let source = |input| match input {
        Input::Path(path) => Source::Path(path),
        Input::Descriptor(fd) => Source::Stream(fd.0),
    };
    let sources = inputs.into_iter().map(source).collect();
    counters.run(|_| load::load(sources, &link.0, &options.0, &counters.0))
}
