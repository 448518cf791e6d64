//! Calls that read the entries of a back-mdb database from its pages.

use std::path::{Path, PathBuf};

use common::lock;
use dump::{SampleSize, ShardTarget, Source};
use pyo3::prelude::*;

use crate::gate::{Counters, duplicate, enter};
use crate::results::{EntryDigests, record};

/// A snapshot of a data file, and the base DN below which entries are read.
#[pyclass(frozen, module = "loader._native")]
pub struct Dump {
    path: PathBuf,
    txn: Option<u64>,
    base: Option<String>,
    after: u64,
    jobs: usize,
}

impl Dump {
    fn source(&self) -> Source<'_> {
        let path: &Path = &self.path;
        Source {
            path,
            txn: self.txn,
            base: self.base.as_deref(),
            after: self.after,
            jobs: self.jobs,
        }
    }
}

#[pymethods]
impl Dump {
    #[new]
    #[pyo3(signature = (path, *, txn, base, jobs, after = 0))]
    fn new(path: PathBuf, txn: Option<u64>, base: Option<String>, jobs: usize, after: u64) -> Self {
        Self { path, txn, base, after, jobs }
    }

    fn export(
        &self,
        py: Python<'_>,
        directory: PathBuf,
        ldif_format: LdifFormat,
        counters: &Counters,
    ) -> PyResult<Exported> {
        let place = ShardTarget { directory, format: ldif_format.into() };
        let work = || dump::export(&self.source(), &place, &counters.0);
        Ok(enter(py, &counters.0, work)?.into())
    }

    fn stream(
        &self,
        py: Python<'_>,
        fd: i32,
        ldif_format: LdifFormat,
        scratch: PathBuf,
        counters: &Counters,
    ) -> PyResult<Exported> {
        let (fd, format) = (duplicate(fd)?, ldif_format.into());
        let work = || dump::stream(&self.source(), fd, format, &scratch, &counters.0);
        Ok(enter(py, &counters.0, work)?.into())
    }

    fn digest(&self, py: Python<'_>, tree: &EntryDigests, counters: &Counters) -> PyResult<()> {
        let work = || dump::digest(&self.source(), &mut lock(&tree.digest), &counters.0);
        enter(py, &counters.0, work)
    }

    #[pyo3(signature = (counters, *, least, share, most))]
    fn sample(
        &self,
        py: Python<'_>,
        counters: &Counters,
        least: u64,
        share: f64,
        most: u64,
    ) -> PyResult<Sample> {
        let size = SampleSize { least, share, most };
        let work = || dump::sample(&self.source(), size, &counters.0);
        Ok(enter(py, &counters.0, work)?.into())
    }

    fn pick(&self, py: Python<'_>, names: Vec<String>, counters: &Counters) -> PyResult<Vec<u8>> {
        enter(py, &counters.0, || dump::pick(&self.source(), &names, &counters.0))
    }
}

/// The fields of `loader.sources.mdb.LdifFormat`.
#[derive(FromPyObject)]
struct LdifFormat {
    compress: bool,
    as_slapcat: Option<usize>,
}

impl From<LdifFormat> for dump::LdifFormat {
    fn from(LdifFormat { compress, as_slapcat }: LdifFormat) -> Self {
        Self { compress, as_slapcat }
    }
}

record!(Sample from dump::Sample { text: Vec<u8>, records: u64, windows: Option<usize> });

record!(Exported from dump::Exported {
    entries: u64,
    holes: u64,
    late: u64,
    bytes: u64,
    checksum: String,
    files: Vec<(String, String, u64, String)> = files.into_iter().map(file).collect(),
    base: String,
    context_csns: Vec<String>,
    ranges: usize,
});

fn file(one: dump::Finished) -> (String, String, u64, String) {
    (one.name, one.sum, one.tally.entries, one.tally.checksum.hex())
}
