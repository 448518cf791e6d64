//! Calls that read the entries of a back-mdb database from its pages.

use std::path::{Path, PathBuf};

use common::lock;
use dump::{SampleSize, ShardTarget, Source};
use pyo3::prelude::*;

use crate::gate::{Counters, Descriptor};
use crate::results::{EntryDigests, argument, record};

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
        Source { path, txn: self.txn, base: self.base.as_deref(), after: self.after, jobs: self.jobs }
    }
}

#[pymethods]
impl Dump {
    #[new]
    fn new(path: PathBuf, txn: Option<u64>, base: Option<String>, jobs: usize, after: u64) -> Self {
        Self { path, txn, base, after, jobs }
    }

    fn export(&self, directory: PathBuf, ldif_format: LdifFormat, counters: &Counters) -> PyResult<Exported> {
        let place = ShardTarget { directory, format: ldif_format.0 };
        counters.run(|counters| dump::export(&self.source(), &place, counters))
    }

    fn stream(
        &self,
        fd: Descriptor,
        ldif_format: LdifFormat,
        scratch: PathBuf,
        counters: &Counters,
    ) -> PyResult<Exported> {
        let format = ldif_format.0;
        counters.run(|counters| dump::stream(&self.source(), fd.0, format, &scratch, counters))
    }

    fn digest(&self, tree: &EntryDigests, counters: &Counters) -> PyResult<()> {
        counters.run(|counters| dump::digest(&self.source(), &mut lock(&tree.digest), counters))
    }

    fn sample(&self, counters: &Counters, least: u64, share: f64, most: u64) -> PyResult<Sample> {
        let size = SampleSize { least, share, most };
        counters.run(|counters| dump::sample(&self.source(), size, counters))
    }

    fn pick(&self, names: Vec<String>, counters: &Counters) -> PyResult<Vec<u8>> {
        counters.run(|counters| dump::pick(&self.source(), &names, counters))
    }
}

argument!(
    /// `loader.sources.mdb.LdifFormat`.
    LdifFormat for dump::LdifFormat { compress: bool, as_slapcat: Option<usize> }
);

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
