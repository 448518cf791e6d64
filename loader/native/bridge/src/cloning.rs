//! Copies a data file: to a file, through a descriptor, or to Python in blocks of pages.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use common::{CancellablePipe, lock};
use disk::{Buffer, PieceWriter};
use lmdbfile::Reader;
use lmdbfile::copy::{Image, ResumePoint, copy, receive, send};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::gate::{Counters, Descriptor, PATIENCE, detached};

#[pyclass(frozen, module = "loader._native")]
pub struct Seen(pub lmdbfile::Seen);

#[pymethods]
impl Seen {
    #[new]
    fn new(source: PathBuf, meta: Vec<u8>) -> PyResult<Self> {
        detached(|| backmdb::audit::seen(&source, &meta)).map(Self)
    }
}

#[pyfunction]
pub fn clone_plain(
    source: PathBuf,
    target: PathBuf,
    head: Vec<u8>,
    length: u64,
    counters: &Counters,
    seen: Option<&Seen>,
) -> PyResult<()> {
    let image = Image { head: &head, length, compacted: false };
    let seen = seen.map(|seen| &seen.0);
    counters.run(|counters| copy(&source, &image, &target, seen, &watch(counters)).map(drop))
}

#[pyfunction]
pub fn clone_compact(source: PathBuf, target: PathBuf, meta: Vec<u8>, counters: &Counters) -> PyResult<()> {
    counters.run(|counters| {
        let reader = codec::tables::with_orders(Reader::open_meta(&source, &meta)?);
        reader.compact(&target, &watch(counters)).map(drop)
    })
}

#[pyfunction]
pub fn clone_send(
    source: PathBuf,
    fd: Descriptor,
    head: Vec<u8>,
    length: u64,
    part: Option<&str>,
    counters: &Counters,
    compacted: bool,
) -> PyResult<u64> {
    let part: Option<ResumePoint> = part.map(str::parse).transpose().map_err(PyValueError::new_err)?;
    let image = Image { head: &head, length, compacted };
    let mut out = CancellablePipe::new(fd.0, &counters.0);
    counters.run(|counters| send(&source, &image, part, &mut out, &watch(counters)))
}

#[pyfunction]
pub fn clone_receive(fd: Descriptor, target: PathBuf, journal: PathBuf, counters: &Counters) -> PyResult<()> {
    let mut input = CancellablePipe::new(fd.0, &counters.0);
    counters.run(|counters| receive(&mut input, &target, &journal, &watch(counters)).map(drop))
}

/// Returns a callback that counts copied bytes, and returns false once the call is cancelled.
fn watch(counters: &common::Counters) -> impl Fn(u64) -> bool {
    move |bytes| {
        counters.add(0, bytes);
        !counters.is_cancelled()
    }
}

/// Size of LMDB's largest page in bytes. Piece sizes are multiples of it, so that every piece contains whole pages.
const LARGEST_PAGE: usize = 64 << 10;

/// Consecutive whole pages of a data file.
#[pyclass(frozen, module = "loader._native")]
pub struct PageBlock(pub Buffer);

#[pymethods]
impl PageBlock {
    fn __len__(&self) -> usize {
        self.0.len()
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
        let next = || {
            let pieces = lock(&self.pieces);
            pieces.as_ref().ok_or(RecvTimeoutError::Disconnected)?.recv_timeout(PATIENCE)
        };
        loop {
            match py.detach(next) {
                Ok(piece) => return Ok(Some(PageBlock(piece))),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            }
        }
    }

    /// Makes the writer's next write fail, because no more pieces will be taken.
    fn close(&self) {
        *lock(&self.pieces) = None;
    }
}

#[pyfunction]
pub fn compact_in_pieces(
    source: PathBuf,
    pieces: &PageBlocks,
    meta: Vec<u8>,
    counters: &Counters,
) -> PyResult<Vec<u8>> {
    let writer = lock(&pieces.writer).take();
    let writer = writer.ok_or_else(|| PyValueError::new_err("the pieces were already written"))?;
    counters.run(|counters| {
        let reader = codec::tables::with_orders(Reader::open_meta(&source, &meta)?);
        reader.compact_in_pieces(writer, &watch(counters))
    })
}
