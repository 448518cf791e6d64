//! The pages of a compacted copy, in pieces from the call that makes them to whoever takes them.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use common::lock;
use disk::{Buffer, PieceWriter};
use lmdbfile::Reader;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::cloning::counted;
use crate::counters::Counters;
use crate::error::raised;
use crate::gate::{PATIENCE, enter};

/// Bytes of the largest page of LMDB: pieces hold whole pages.
const LARGEST_PAGE: usize = 64 << 10;

/// Whole pages, one after the other.
#[pyclass(frozen, module = "loader._native")]
#[derive(Debug)]
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
#[derive(Debug)]
pub struct PageBlocks {
    writer: Mutex<Option<PieceWriter>>,
    pieces: Mutex<Option<Receiver<Buffer>>>,
}

#[pymethods]
impl PageBlocks {
    #[new]
    fn new(size: usize) -> PyResult<Self> {
        if size == 0 || size % LARGEST_PAGE != 0 {
            return Err(PyValueError::new_err(format!("pieces of {size} bytes")));
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

    /// Whoever makes them is told that nobody takes them any more.
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
    let writer = writer.ok_or_else(|| PyValueError::new_err("pieces that were made before"))?;
    let work = move || {
        let mut reader = Reader::open_meta(&source, &meta)?;
        codec::tables::set_orders(&mut reader);
        reader.compact_in_pieces(writer, &|bytes| counted(counters, bytes))
    };
    enter(py, &counters.0, work)
}
