//! Passes LDIF from a running server directly to a build.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use backmdb::Orphan;
use common::{Code, Error, lock};
use pyo3::prelude::*;

/// Maximum number of waiting blocks, which take about 10 MB.
const CAPACITY: usize = 24;

/// A queue of LDIF blocks between connections and a build.
#[pyclass(frozen, module = "loader._native")]
#[derive(Debug)]
pub struct Feed(pub Arc<ldif::Feed>);

#[pymethods]
impl Feed {
    #[new]
    fn new() -> Self {
        Self(Arc::new(ldif::Feed::new(CAPACITY)))
    }

    fn close(&self) {
        self.0.close();
    }

    fn break_off(&self) {
        self.0.break_off();
    }

    fn repeat(&self) {
        self.0.repeat();
    }
}

/// The fields of `loader.sinks.mdb.LiveSource`.
#[derive(Debug, FromPyObject)]
pub struct Live {
    head: Option<PathBuf>,
    read_again: Py<PyAny>,
    renamed: Py<PyAny>,
}

/// A live source, and the exception that one of its Python functions raised; the exception ends the build.
pub struct LiveReader {
    live: Live,
    raised: Mutex<Option<PyErr>>,
}

impl LiveReader {
    pub const fn new(live: Live) -> Self {
        Self { live, raised: Mutex::new(None) }
    }

    pub fn head(&self) -> Option<&Path> {
        self.live.head.as_deref()
    }

    pub fn reread(&self, orphans: Vec<Orphan>) -> common::Result<Vec<PathBuf>> {
        let rows: Vec<_> = orphans.into_iter().map(|one| (one.parent, one.dn, one.uuid)).collect();
        let answer = Python::attach(|py| self.live.read_again.call1(py, (rows,))?.extract(py));
        answer.map_err(|error| self.refused(error))
    }

    pub fn renamed(&self, uuids: Vec<String>) -> common::Result<()> {
        let answer = Python::attach(|py| self.live.renamed.call1(py, (uuids,)));
        answer.map(drop).map_err(|error| self.refused(error))
    }

    fn refused(&self, error: PyErr) -> Error {
        *lock(&self.raised) = Some(error);
        Error::new(Code::Cancelled, "reading entries again from the server failed")
    }

    /// Returns the exception that a Python function raised, if any.
    pub fn exception(self) -> Option<PyErr> {
        self.raised.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
