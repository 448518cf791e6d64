//! Copies of data files.

use std::path::PathBuf;

use lmdbfile::copy::{Image, copy};
use lmdbfile::{Error, ErrorKind, Reader};
use pyo3::prelude::*;

use crate::counters::Counters;
use crate::error::{NativeError, Raise};
use crate::gate::enter;

struct Failed(Error);

impl Raise for Failed {
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
        ErrorKind::Cancelled => "cancelled",
        _ => "lmdb.damaged",
    }
}

#[pyfunction]
pub fn clone_plain(
    py: Python<'_>,
    source: PathBuf,
    target: PathBuf,
    head: Vec<u8>,
    length: u64,
    counters: &Counters,
) -> PyResult<u64> {
    let image = Image { head: &head, length };
    let watch = |bytes| counted(counters, bytes);
    enter(py, &counters.0, || copy(&source, &image, &target, &watch).map_err(Failed))
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
        let reader = Reader::open_meta(&source, &meta)?;
        reader.compact(&target, &|bytes| counted(counters, bytes))
    };
    enter(py, &counters.0, || work().map_err(Failed)).map(|made| made.bytes)
}

/// Whether to go on.
fn counted(counters: &Counters, bytes: u64) -> bool {
    counters.0.add(0, bytes);
    !counters.0.is_cancelled()
}
