//! Copies of data files.

use std::path::PathBuf;

use common::CancellablePipe;
use lmdbfile::Reader;
use lmdbfile::copy::{Image, ResumePoint, copy, receive, send};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::counters::Counters;
use crate::error::raised;
use crate::gate::{duplicate, enter};

#[pyclass(frozen, module = "loader._native")]
#[derive(Debug)]
pub struct Seen(pub lmdbfile::Seen);

#[pymethods]
impl Seen {
    #[new]
    fn new(py: Python<'_>, source: PathBuf, meta: Vec<u8>) -> PyResult<Self> {
        let seen = py.detach(|| backmdb::audit::seen(&source, &meta));
        raised(py, seen).map(Self)
    }
}

#[pyfunction]
#[pyo3(signature = (source, target, head, length, counters, *, seen))]
pub fn clone_plain(
    py: Python<'_>,
    source: PathBuf,
    target: PathBuf,
    head: Vec<u8>,
    length: u64,
    counters: &Counters,
    seen: Option<&Seen>,
) -> PyResult<u64> {
    let image = Image { head: &head, length, compacted: false };
    let (seen, watch) = (seen.map(|seen| &seen.0), |bytes| counted(counters, bytes));
    enter(py, &counters.0, || copy(&source, &image, &target, seen, &watch))
}

#[pyfunction]
pub fn clone_compact(
    py: Python<'_>,
    source: PathBuf,
    target: PathBuf,
    meta: Vec<u8>,
    counters: &Counters,
) -> PyResult<u64> {
    let work = || {
        let mut reader = Reader::open_meta(&source, &meta)?;
        codec::tables::set_orders(&mut reader);
        reader.compact(&target, &|bytes| counted(counters, bytes))
    };
    enter(py, &counters.0, work).map(|made| made.bytes)
}

#[pyfunction]
#[pyo3(signature = (source, fd, head, length, part, counters, *, compacted))]
pub fn clone_send(
    py: Python<'_>,
    source: PathBuf,
    fd: i32,
    head: Vec<u8>,
    length: u64,
    part: Option<&str>,
    counters: &Counters,
    compacted: bool,
) -> PyResult<u64> {
    let part: Option<ResumePoint> =
        part.map(str::parse).transpose().map_err(PyValueError::new_err)?;
    let image = Image { head: &head, length, compacted };
    let mut out = CancellablePipe::new(duplicate(fd)?, &counters.0);
    let watch = |bytes| counted(counters, bytes);
    enter(py, &counters.0, || send(&source, &image, part, &mut out, &watch))
}

#[pyfunction]
pub fn clone_receive(
    py: Python<'_>,
    fd: i32,
    target: PathBuf,
    journal: PathBuf,
    counters: &Counters,
) -> PyResult<u64> {
    let mut input = CancellablePipe::new(duplicate(fd)?, &counters.0);
    let watch = |bytes| counted(counters, bytes);
    enter(py, &counters.0, || receive(&mut input, &target, &journal, &watch))
}

/// Whether to go on.
pub fn counted(counters: &Counters, bytes: u64) -> bool {
    counters.0.add(0, bytes);
    !counters.0.is_cancelled()
}
