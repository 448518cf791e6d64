//! A running server, read: connections, and the searches over them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::lock;
use pyo3::prelude::*;
use tree::Names;
use wire::{FeedFiles, OutputFiles, Scope, Secret};

use crate::counters::Counters;
use crate::error::one_of;
use crate::feed::Feed;
use crate::gate::enter;
use crate::results::EntryDigests;

/// How to reach a server, and as whom.
#[pyclass(frozen, module = "loader._native")]
#[derive(Debug)]
pub struct ConnectionOptions(pub wire::ConnectionOptions);

#[pymethods]
impl ConnectionOptions {
    #[new]
    #[pyo3(signature = (
        *, uri, bind_dn, secret, mechanism, authcid, authzid, realm, secprops, as_written, start_tls,
        connect_timeout, bind_timeout, silence
    ))]
    #[allow(clippy::similar_names, reason = "SASL named them")]
    fn new(
        uri: Option<String>,
        bind_dn: Option<String>,
        secret: Option<Vec<u8>>,
        mechanism: Option<String>,
        authcid: Option<String>,
        authzid: Option<String>,
        realm: Option<String>,
        secprops: Option<String>,
        as_written: bool,
        start_tls: u8,
        connect_timeout: f64,
        bind_timeout: f64,
        silence: f64,
    ) -> PyResult<Self> {
        let secret = secret.map(Secret::new);
        let (connect_timeout, bind_timeout) = (seconds(connect_timeout)?, seconds(bind_timeout)?);
        let silence = seconds(silence)?;
        Ok(Self(wire::ConnectionOptions {
            uri,
            bind_dn,
            secret,
            mechanism,
            authcid,
            authzid,
            realm,
            secprops,
            as_written,
            start_tls,
            connect_timeout,
            bind_timeout,
            silence,
        }))
    }
}

pub fn seconds(value: f64) -> PyResult<Duration> {
    one_of(Duration::try_from_secs_f64(value).ok(), &value.to_string(), "number of seconds")
}

#[pyclass(frozen, module = "loader._native")]
#[derive(Debug)]
pub struct Search(wire::Search);

#[pymethods]
impl Search {
    #[new]
    #[pyo3(signature = (base, filter, scope, attributes, *, page=0, subentries=false))]
    fn new(
        base: String,
        filter: String,
        scope: &str,
        attributes: Vec<String>,
        page: u32,
        subentries: bool,
    ) -> PyResult<Self> {
        let scope = one_of(Scope::from_name(scope), scope, "scope")?;
        Ok(Self(wire::Search { base, scope, filter, attributes, page, subentries }))
    }
}

#[pyclass(frozen, get_all, module = "loader._native")]
#[derive(Debug)]
pub struct Part {
    entries: u64,
    bytes: u64,
    files: Vec<PathBuf>,
    sums: Vec<String>,
}

impl From<wire::SearchOutput> for Part {
    fn from(part: wire::SearchOutput) -> Self {
        let wire::SearchOutput { entries, bytes, files, sums } = part;
        Self { entries, bytes, files, sums }
    }
}

/// What a provider told of its changes.
#[pyclass(frozen, get_all, module = "loader._native")]
#[derive(Debug)]
pub struct Synced {
    entries: u64,
    present: u64,
    deleted: u64,
    repeated: Vec<Vec<u8>>,
    cookie: Option<Vec<u8>>,
    names_present: bool,
    cut: bool,
}

impl From<wire::sync::SyncCounts> for Synced {
    fn from(found: wire::sync::SyncCounts) -> Self {
        let wire::sync::SyncCounts {
            entries,
            present,
            deleted,
            repeated,
            cookie,
            names_present,
            cut,
        } = found;
        Self { entries, present, deleted, repeated, cookie, names_present, cut }
    }
}

/// A bound connection, for one search at a time. One that failed is closed.
#[pyclass(frozen, module = "loader._native")]
#[derive(Debug)]
pub struct Channel {
    channel: Mutex<Option<wire::Channel>>,
    counters: Arc<common::Counters>,
}

impl Channel {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut wire::Channel, &common::Counters) -> wire::Result<T> + Send,
    ) -> PyResult<T> {
        let mut work = Some(work);
        enter(py, &self.counters, || {
            let mut place = lock(&self.channel);
            let (Some(channel), Some(work)) = (place.as_mut(), work.take()) else {
                return Err(wire::Error::closed());
            };
            let done = work(channel, &self.counters);
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
    fn new(py: Python<'_>, link: &ConnectionOptions, counters: &Counters) -> PyResult<Self> {
        let counters = Arc::clone(&counters.0);
        let opened = enter(py, &counters, || wire::Channel::open(&link.0, &counters))?;
        Ok(Self { channel: Mutex::new(Some(opened)), counters })
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| *lock(&self.channel) = None);
    }

    #[pyo3(signature = (search, directory, name, drop, *, compress))]
    fn part(
        &self,
        py: Python<'_>,
        search: &Search,
        directory: PathBuf,
        name: String,
        drop: Vec<String>,
        compress: bool,
    ) -> PyResult<Part> {
        let (place, drop) = (OutputFiles { directory, name, compress }, Names::new(drop));
        let part = self
            .with(py, |channel, counters| wire::part(channel, &search.0, &place, drop, counters))?;
        Ok(part.into())
    }

    #[pyo3(signature = (search, feed, notes, drop, *, copy=None))]
    fn feed(
        &self,
        py: Python<'_>,
        search: &Search,
        feed: &Feed,
        notes: PathBuf,
        drop: Vec<String>,
        copy: Option<PathBuf>,
    ) -> PyResult<u64> {
        let drop = Names::new(drop);
        let besides = FeedFiles { notes: &notes, copy: copy.as_deref() };
        self.with(py, |channel, counters| {
            wire::feed(channel, &search.0, &feed.0, besides, drop, counters)
        })
    }

    fn file(
        &self,
        py: Python<'_>,
        search: &Search,
        path: PathBuf,
        drop: Vec<String>,
    ) -> PyResult<Part> {
        let drop = Names::new(drop);
        let part = self
            .with(py, |channel, counters| wire::file(channel, &search.0, &path, drop, counters))?;
        Ok(part.into())
    }

    #[pyo3(signature = (search, cookie, most, changed, present, deleted, drop))]
    fn sync(
        &self,
        py: Python<'_>,
        search: &Search,
        cookie: Vec<u8>,
        most: u64,
        changed: PathBuf,
        present: PathBuf,
        deleted: PathBuf,
        drop: Vec<String>,
    ) -> PyResult<Synced> {
        let files = wire::sync::Files { changed, present, deleted };
        let drop = Names::new(drop);
        let found = self.with(py, |channel, counters| {
            wire::sync(channel, &search.0, &cookie, most, &files, drop, counters)
        })?;
        Ok(found.into())
    }

    fn digest(&self, py: Python<'_>, search: &Search, tree: &EntryDigests) -> PyResult<()> {
        self.with(py, |channel, counters| {
            let mut digest = lock(&tree.digest);
            wire::digest(channel, &search.0, &mut digest, counters)
        })
    }

    fn discard(&self, py: Python<'_>, search: &Search) -> PyResult<()> {
        self.with(py, |channel, counters| wire::discard(channel, &search.0, counters))
    }
}
