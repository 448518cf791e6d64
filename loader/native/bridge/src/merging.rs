//! Cuts LDIF into slices for several slapadds, and merges the databases that they write.

use std::collections::HashMap;
use std::path::PathBuf;

use ::merge::slices::{self, Found, OperationalAttributes, SliceOptions, SliceStart};
use common::{CancellablePipe, Error};
use pyo3::prelude::*;
use tree::join::ContextCsnStamp;
use tree::names::Aliases;

use crate::calls::Stamp;
use crate::error::one_of;
use crate::gate::{Counters, Descriptor};
use crate::results::{argument, record};

/// The start of a slice: index of its file, offset and line in the file, number of leaf entries before the slice.
type SliceStartFields = (usize, u64, u64, u64);
/// The path, line and DN of a record.
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

/// The fields of `loader.sinks.slapadd.Slice`.
#[derive(FromPyObject)]
pub struct Slice {
    ldif: SlicedLdif,
    shared: u64,
    cut: SliceStartFields,
    own: u64,
    now: Option<String>,
    server_id: u16,
    first: u64,
    stamp: Stamp,
    aliases: HashMap<String, String>,
}

impl Slice {
    fn options(&self) -> SliceOptions<'_> {
        let SlicedLdif { paths, suffixes, shared: shared_path } = &self.ldif;
        let (file, offset, line, before) = self.cut;
        let cut = SliceStart { file, offset, line, before };
        let complete = self.now.as_ref().map(|now| OperationalAttributes::new(now, self.server_id, self.first));
        let aliases = Aliases::new(self.aliases.clone());
        SliceOptions { paths, suffixes, shared_path, shared: self.shared, cut, own: self.own, aliases, complete }
    }

    fn stamping(&self) -> Option<ContextCsnStamp> {
        self.stamp.as_ref().map(|(root, csns)| ContextCsnStamp::new(root, csns))
    }
}

#[pyfunction]
pub fn feed_slice(slice: Slice, fd: Descriptor, counters: &Counters) -> PyResult<(u64, bool)> {
    let mut sink = CancellablePipe::new(fd.0, &counters.0);
    counters.run(|counters| {
        let counts = slices::feed(&slice.options(), &mut sink, slice.stamping(), counters)?;
        Ok::<_, Error>((counts.entries, counts.root_met))
    })
}

#[pyfunction]
pub fn find_line(slice: Slice, line: u64, counters: &Counters) -> PyResult<Option<RecordLocation>> {
    counters.run(|counters| {
        let record = slices::find_line(&slice.options(), line, slice.stamping(), counters)?;
        Ok::<_, Error>(record.map(location))
    })
}

fn location(record: Found) -> RecordLocation {
    (record.path, record.line, record.dn)
}

#[pyfunction]
pub fn find_name(ldif: SlicedLdif, dn: &str, counters: &Counters) -> PyResult<Vec<RecordLocation>> {
    let SlicedLdif { paths, suffixes, .. } = ldif;
    counters.run(|counters| {
        let records = slices::find_name(&paths, &suffixes, dn, counters)?;
        Ok::<_, Error>(records.into_iter().map(location).collect::<Vec<_>>())
    })
}

argument!(
    /// The fields of `loader.sinks.slapadd.MergeOptions`.
    MergeOptions for ::merge::Options {
        shared: u64,
        map_size: u64,
        #[pyo3(attribute("idlexp"))]
        list_exponent: u32 = one_of(
            Some(list_exponent).filter(|number| (1..32).contains(number)), &list_exponent.to_string(), "valid idlexp"
        )?,
        context: Option<String>,
        jobs: usize,
    }
);

#[pyfunction]
pub fn merge(paths: Vec<PathBuf>, out_path: PathBuf, options: MergeOptions, counters: &Counters) -> PyResult<u64> {
    counters.run(|counters| ::merge::merge(&paths, &out_path, &options.0, counters))
}
