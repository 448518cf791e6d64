//! Searches a running server, and adds entries to it.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use common::{Scope, lock};
use load::{OnExists, Source};
use pyo3::prelude::*;
use tree::Names;
use wire::{FeedFiles, OutputFiles, Secret};

use crate::building::{Feed, Rejection, reported};
use crate::error::one_of;
use crate::gate::{Counters, Descriptor};
use crate::results::{EntryDigests, argument, record};

argument!(
    /// The fields of `loader.server.wire.Link`.
    Link for wire::ConnectionOptions {
        uri: Option<String>,
        bind_dn: Option<String>,
        secret: Option<Vec<u8>> = secret.map(Secret::new),
        mechanism: Option<String>,
        authcid: Option<String>,
        authzid: Option<String>,
        realm: Option<String>,
        secprops: Option<String>,
        as_written: bool,
        start_tls: u8,
        connect_timeout: f64 = seconds(connect_timeout)?,
        bind_timeout: f64 = seconds(bind_timeout)?,
        silence: f64 = seconds(silence)?,
    }
);

fn seconds(value: f64) -> PyResult<Duration> {
    one_of(Duration::try_from_secs_f64(value).ok(), &value.to_string(), "number of seconds")
}

argument!(
    /// The fields of `loader.server.options.Search`.
    Search for wire::Search {
        base: String,
        #[pyo3(attribute("where"))]
        filter: String,
        scope: String = one_of(Scope::from_name(&scope), &scope, "scope")?,
        attributes: Vec<String>,
        page: u32,
        subentries: bool,
    }
);

record!(Part from wire::SearchOutput {
    entries: u64,
    bytes: u64,
    files: Vec<PathBuf>,
    sums: Vec<String>,
});

record!(Synced from wire::sync::SyncCounts {
    entries: u64,
    present: u64,
    deleted: u64,
    repeated: Vec<Vec<u8>>,
    cookie: Option<Vec<u8>>,
    names_present: bool,
    cut: bool,
});

/// A bound connection, used for one search at a time. An error closes it.
#[pyclass(frozen, module = "loader._native")]
pub struct Channel {
    channel: Mutex<Option<wire::Channel>>,
    counters: Counters,
}

impl Channel {
    /// Runs a search; closes the channel if the search fails.
    fn search<T: Send, R: From<T>>(
        &self,
        search: Search,
        work: impl FnOnce(&mut wire::Channel, &wire::Search, &common::Counters) -> wire::Result<T> + Send,
    ) -> PyResult<R> {
        self.counters.run(|counters| {
            let mut place = lock(&self.channel);
            let channel = place.as_mut().ok_or_else(wire::Error::closed)?;
            let done = work(channel, &search.0, counters);
            if done.is_err() {
                *place = None;
            }
            done
        })
    }
}

#[pymethods]
impl Channel {
    #[new]
    fn new(link: Link, counters: &Counters) -> PyResult<Self> {
        let opened = counters.run(|_| wire::Channel::open(&link.0, &counters.0))?;
        Ok(Self { channel: Mutex::new(Some(opened)), counters: counters.clone() })
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| *lock(&self.channel) = None);
    }

    fn part(
        &self,
        search: Search,
        directory: PathBuf,
        name: String,
        drop: Vec<String>,
        compress: bool,
    ) -> PyResult<Part> {
        let (place, drop) = (OutputFiles { directory, name, compress }, Names::new(drop));
        self.search(search, |channel, search, counters| wire::part(channel, search, &place, drop, counters))
    }

    fn feed(
        &self,
        search: Search,
        feed: &Feed,
        notes: PathBuf,
        drop: Vec<String>,
        copy: Option<PathBuf>,
    ) -> PyResult<u64> {
        let drop = Names::new(drop);
        let besides = FeedFiles { notes: &notes, copy: copy.as_deref() };
        self.search(search, |channel, search, counters| wire::feed(channel, search, &feed.0, besides, drop, counters))
    }

    fn file(&self, search: Search, path: PathBuf, drop: Vec<String>) -> PyResult<Part> {
        let drop = Names::new(drop);
        self.search(search, |channel, search, counters| wire::file(channel, search, &path, drop, counters))
    }

    fn sync(
        &self,
        search: Search,
        cookie: Vec<u8>,
        most: u64,
        files: (PathBuf, PathBuf, PathBuf),
        drop: Vec<String>,
    ) -> PyResult<Synced> {
        let (changed, present, deleted) = files;
        let (files, drop) = (wire::sync::Files { changed, present, deleted }, Names::new(drop));
        self.search(search, |channel, search, counters| {
            wire::sync(channel, search, &cookie, most, &files, drop, counters)
        })
    }

    fn digest(&self, search: Search, tree: &EntryDigests) -> PyResult<()> {
        self.search(search, |channel, search, counters| {
            wire::digest(channel, search, &mut lock(&tree.digest), counters)
        })
    }

    fn discard(&self, search: Search) -> PyResult<()> {
        self.search(search, wire::discard)
    }
}

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
    /// The fields of `loader.sinks.ldap.LoadOptions`.
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
