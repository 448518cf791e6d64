//! Copies of data files.

use std::path::PathBuf;

use ldif::polled::CancellableReader;
use lmdbfile::copy::{Image, ResumePoint, copy, receive, send};
use lmdbfile::{Error, ErrorKind, Reader};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::counters::Counters;
use crate::error::{NativeError, Raise};
use crate::gate::{duplicate, enter};

struct CloneFailure(Error);

impl Raise for CloneFailure {
    fn raise(self, py: Python<'_>) -> PyErr {
        let raised = NativeError::new_err(self.0.to_string());
        let value = raised.value(py);
        let given = value.setattr("code", code(self.0.kind));
        match given.and_then(|()| value.setattr("message", self.0.to_string())) {
            Ok(()) => raised,
            Err(failure) => failure,
        }
    }
}

fn code(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Io => "lmdb.io",
        ErrorKind::NoSpace => "lmdb.no_space",
        ErrorKind::Full => "lmdb.full",
        ErrorKind::Stream => "lmdb.stream",
        ErrorKind::Misuse => "lmdb.misuse",
        ErrorKind::Cancelled => "cancelled",
        _ => "lmdb.damaged",
    }
}

#[pyclass(frozen, module = "loader._native")]
#[derive(Debug)]
pub struct Seen(pub lmdbfile::Seen);

#[pymethods]
impl Seen {
    #[new]
    fn new(py: Python<'_>, source: PathBuf, meta: Vec<u8>) -> PyResult<Self> {
        let seen = py.detach(|| backmdb::audit::seen(&source, &meta));
        seen.map(Self).map_err(|error| CloneFailure(error).raise(py))
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
    enter(py, &counters.0, || copy(&source, &image, &target, seen, &watch).map_err(CloneFailure))
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
    enter(py, &counters.0, || work().map_err(CloneFailure)).map(|made| made.bytes)
}

#[pyfunction]
#[pyo3(signature = (source, fd, head, length, part, counters, *, compacted))]
#[allow(clippy::too_many_arguments, reason = "one call is one phase, with all it needs")]
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
    let mut out = CancellableReader::new(duplicate(fd)?, &counters.0);
    let watch = |bytes| counted(counters, bytes);
    enter(py, &counters.0, || send(&source, &image, part, &mut out, &watch).map_err(CloneFailure))
}

#[pyfunction]
pub fn clone_receive(
    py: Python<'_>,
    fd: i32,
    target: PathBuf,
    journal: PathBuf,
    counters: &Counters,
) -> PyResult<u64> {
    let mut input = CancellableReader::new(duplicate(fd)?, &counters.0);
    let watch = |bytes| counted(counters, bytes);
    enter(py, &counters.0, || receive(&mut input, &target, &journal, &watch).map_err(CloneFailure))
}

/// Whether to go on.
fn counted(counters: &Counters, bytes: u64) -> bool {
    counters.0.add(0, bytes);
    !counters.0.is_cancelled()
}
