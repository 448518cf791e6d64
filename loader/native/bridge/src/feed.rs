//! Passes LDIF from connections to a build, and lets the build read entries of the server again.

use std::path::PathBuf;
use std::sync::Arc;

use backmdb::Orphan;
use pyo3::prelude::*;

/// Maximum number of blocks in the queue, which take about 10 MB.
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
    pub head: Option<PathBuf>,
    read_again: Py<PyAny>,
    renamed: Py<PyAny>,
}

impl Live {
    pub fn reread(&self, orphans: Vec<Orphan>) -> PyResult<Vec<PathBuf>> {
        let rows: Vec<_> = orphans.into_iter().map(|orphan| (orphan.parent, orphan.dn, orphan.uuid)).collect();
        Python::attach(|py| self.read_again.call1(py, (rows,))?.extract(py))
    }

    pub fn renamed(&self, uuids: Vec<String>) -> PyResult<()> {
        Python::attach(|py| self.renamed.call1(py, (uuids,)).map(drop))
    }
}
