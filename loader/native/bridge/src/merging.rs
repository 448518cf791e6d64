//! Calls that slice LDIF for several slapadds, and merge their databases.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use ::merge::Options;
use ::merge::slices::{self, Found, OperationalAttributes, SliceOptions, SliceStart};
use common::{CancellablePipe, Error};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tree::join::ContextCsnStamp;
use tree::names::Aliases;

use crate::calls::Stamp;
use crate::gate::{Counters, Descriptor};
use crate::results::record;

/// The start of a slice: the index of its file, the offset, the line, and the number of entries before the slice.
type SliceStartFields = (usize, u64, u64, u64);
/// The path, the line and the DN of a record.
type RecordLocation = (PathBuf, u64, String);

record!(Plan from slices::Plan {
    shared: u64,
    leaves: u64,
    unknown: u64,
    cuts: Vec<SliceStartFields> =
        cuts.iter().map(|cut| (cut.file, cut.offset, cut.line, cut.before)).collect(),
});

/// The fields of `loader.sinks.slapadd.SlicedLdif`.
#[derive(Debug, FromPyObject)]
pub struct SlicedLdif {
    paths: Vec<PathBuf>,
    suffixes: Vec<String>,
    shared: PathBuf,
}

#[pyfunction]
pub fn plan(ldif: SlicedLdif, shards: usize, counters: &Counters) -> PyResult<Plan> {
    let SlicedLdif { paths, suffixes, shared } = ldif;
    counters.run(|counters| slices::plan(&paths, &suffixes, shards, &shared, counters))
}

#[pyclass(frozen, module = "loader._native")]
pub struct Slice {
    ldif: SlicedLdif,
    shared: u64,
    cut: SliceStart,
    own: u64,
    complete: Option<OperationalAttributes>,
    stamp: Stamp,
    aliases: Aliases,
}

#[pymethods]
impl Slice {
    #[new]
    fn new(
        ldif: SlicedLdif,
        shared: u64,
        cut: SliceStartFields,
        own: u64,
        now: Option<String>,
        server_id: u16,
        first: u64,
        stamp: Stamp,
        aliases: HashMap<String, String>,
    ) -> Self {
        let (file, offset, line, before) = cut;
        let cut = SliceStart { file, offset, line, before };
        let complete = now.map(|now| OperationalAttributes::new(&now, server_id, first));
        Self { ldif, shared, cut, own, complete, stamp, aliases: Aliases::new(aliases) }
    }

    fn feed(&self, fd: Descriptor, counters: &Counters) -> PyResult<(u64, bool)> {
        let mut sink = CancellablePipe::new(fd.0, &counters.0);
        counters.run(|counters| {
            let fed = slices::feed(&self.core(), &mut sink, self.stamping(), counters)?;
            Ok::<_, Error>((fed.entries, fed.root_met))
        })
    }

    fn find_line(&self, line: u64, counters: &Counters) -> PyResult<Option<RecordLocation>> {
        counters.run(|counters| {
            let found = slices::find_line(&self.core(), line, self.stamping(), counters)?;
            Ok::<_, Error>(found.map(place))
        })
    }
}

impl Slice {
    fn core(&self) -> SliceOptions<'_> {
        let SlicedLdif { paths, suffixes, shared: shared_path } = &self.ldif;
        let Self { shared, cut, own, .. } = *self;
        let (complete, aliases) = (self.complete.clone(), self.aliases.clone());
        SliceOptions { paths, suffixes, shared_path, shared, cut, own, aliases, complete }
    }

    fn stamping(&self) -> Option<ContextCsnStamp> {
        self.stamp.as_ref().map(|(root, csns)| ContextCsnStamp::new(root, csns))
    }
}

fn place(found: Found) -> RecordLocation {
    (found.path, found.line, found.dn)
}

#[pyfunction]
pub fn find_name(ldif: SlicedLdif, dn: &str, counters: &Counters) -> PyResult<Vec<RecordLocation>> {
    let SlicedLdif { paths, suffixes, .. } = ldif;
    let found: Vec<_> = counters.run(|counters| slices::find_name(&paths, &suffixes, dn, counters))?;
    Ok(found.into_iter().map(place).collect())
}

record!(Merged from ::merge::Merged {
    entries: u64,
    bytes: u64,
    pages: u64,
    tables: BTreeMap<String, u64>,
});

#[pyfunction]
pub fn merge(
    paths: Vec<PathBuf>,
    out_path: PathBuf,
    counters: &Counters,
    shared: u64,
    map_size: u64,
    idlexp: u32,
    context: Option<String>,
    jobs: usize,
) -> PyResult<Merged> {
    if !(1..32).contains(&idlexp) {
        return Err(PyValueError::new_err("idlexp is 1 to 31"));
    }
    let options = Options { shared, map_size, list_exponent: idlexp, context, jobs };
    counters.run(|counters| ::merge::merge(&paths, &out_path, &options, counters))
}
