//! Calls that copy a data file: to a file, through a descriptor, or to Python in pieces.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use common::{CancellablePipe, lock};
use disk::{Buffer, PieceWriter};
use lmdbfile::Reader;
use lmdbfile::copy::{Image, ResumePoint, copy, receive, send};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::raised;
use crate::gate::{Counters, PATIENCE, duplicate, enter};

#[pyclass(frozen, module = "loader._native")]
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
        let reader = codec::tables::with_orders(Reader::open_meta(&source, &meta)?);
        reader.compact(&target, &|bytes| counted(counters, bytes))
    };
    enter(py, &counters.0, work).map(|copied| copied.bytes)
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

/// Counts bytes, and returns whether the call should continue.
fn counted(counters: &Counters, bytes: u64) -> bool {
    counters.0.add(0, bytes);
    !counters.0.is_cancelled()
}

/// Size of LMDB's largest page in bytes; every piece contains whole pages.
const LARGEST_PAGE: usize = 64 << 10;

/// Consecutive whole pages of a data file.
#[pyclass(frozen, module = "loader._native")]
pub struct PageBlock(pub Buffer);

#[pymethods]
impl PageBlock {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0)
    }

    fn compressed(&self, py: Python<'_>, level: i32) -> PyResult<Vec<u8>> {
        raised(py, py.detach(|| pagestore::compressed_piece(&self.0, level)))
    }
}

#[pyclass(frozen, module = "loader._native")]
pub struct PageBlocks {
    writer: Mutex<Option<PieceWriter>>,
    pieces: Mutex<Option<Receiver<Buffer>>>,
}

#[pymethods]
impl PageBlocks {
    #[new]
    fn new(size: usize) -> PyResult<Self> {
        if size == 0 || size % LARGEST_PAGE != 0 {
            return Err(PyValueError::new_err(format!("{size} bytes is not a valid piece size")));
        }
        let (writer, pieces) = PieceWriter::new(size);
        Ok(Self { writer: Mutex::new(Some(writer)), pieces: Mutex::new(Some(pieces)) })
    }

    fn take(&self, py: Python<'_>) -> PyResult<Option<PageBlock>> {
        loop {
            match py.detach(|| self.next(PATIENCE)) {
                Ok(piece) => return Ok(Some(PageBlock(piece))),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            }
        }
    }

    /// Tells the writer that no more pieces will be taken.
    fn close(&self) {
        *lock(&self.pieces) = None;
    }
}

impl PageBlocks {
    fn next(&self, patience: Duration) -> Result<Buffer, RecvTimeoutError> {
        let pieces = lock(&self.pieces);
        pieces.as_ref().ok_or(RecvTimeoutError::Disconnected)?.recv_timeout(patience)
    }
}

#[pyfunction]
pub fn compact_in_pieces(
    py: Python<'_>,
    source: PathBuf,
    pieces: &PageBlocks,
    meta: Vec<u8>,
    counters: &Counters,
) -> PyResult<Vec<u8>> {
    let writer = lock(&pieces.writer).take();
    let writer = writer.ok_or_else(|| PyValueError::new_err("the pieces were already written"))?;
    let work = move || {
        let reader = codec::tables::with_orders(Reader::open_meta(&source, &meta)?);
        reader.compact_in_pieces(writer, &|bytes| counted(counters, bytes))
    };
    enter(py, &counters.0, work)
}
