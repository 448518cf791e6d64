//! Reads the entries of a back-mdb database from the pages of its data file.

use std::path::PathBuf;

use common::lock;
use dump::{SampleSize, ShardTarget, Source};
use pyo3::prelude::*;

use crate::gate::{Counters, Descriptor};
use crate::results::{EntryDigests, argument, record};

#[pyclass(frozen, module = "loader._native")]
pub struct Dump(Source);

#[pymethods]
impl Dump {
    #[new]
    fn new(path: PathBuf, txn: Option<u64>, base: Option<String>, jobs: usize, after: u64) -> Self {
        Self(Source { path, txn, base, after, jobs })
    }

    fn export(&self, directory: PathBuf, ldif_format: LdifFormat, counters: &Counters) -> PyResult<Exported> {
        let target = ShardTarget { directory, format: ldif_format.0 };
        counters.run(|counters| dump::export(&self.0, &target, counters))
    }

    fn stream(
        &self,
        fd: Descriptor,
        ldif_format: LdifFormat,
        scratch: PathBuf,
        counters: &Counters,
    ) -> PyResult<Exported> {
        counters.run(|counters| dump::stream(&self.0, fd.0, ldif_format.0, &scratch, counters))
    }

    fn digest(&self, tree: &EntryDigests, counters: &Counters) -> PyResult<()> {
        counters.run(|counters| dump::digest(&self.0, &mut lock(&tree.digest), counters))
    }

    fn sample(&self, counters: &Counters, least: u64, share: f64, most: u64) -> PyResult<Sample> {
        let size = SampleSize { least, share, most };
        counters.run(|counters| dump::sample(&self.0, size, counters))
    }

    fn pick(&self, names: Vec<String>, counters: &Counters) -> PyResult<Vec<u8>> {
        counters.run(|counters| dump::pick(&self.0, &names, counters))
    }
}

argument!(
    /// The fields of `loader.sources.mdb.LdifFormat`.
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

fn file(file: dump::Finished) -> (String, String, u64, String) {
    (file.name, file.sum, file.tally.entries, file.tally.checksum.hex())
}
