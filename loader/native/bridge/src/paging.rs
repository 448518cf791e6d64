//! Calls that store the pages of backups by content. All calls except `restore` are short, and come from many threads.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use pagestore::{Assembly, Backup, Pack, Piece, Segment, Shape};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::cloning::PageBlock;
use crate::error::raised;
use crate::gate::{Counters, Descriptor, detached};

/// A segment: its runs, the number of the first page that is new in this backup, and the number of pages.
type SegmentFields = (Vec<u8>, u32, u64);

/// A segment after sifting: its runs, frames, index entries and XXH3 checksum; and the number of new pages.
type SiftedFields<'py> = ([Bound<'py, PyBytes>; 4], u32);

fn segment((runs, first, pages): SegmentFields) -> Segment {
    Segment { runs, first, pages }
}

fn shape(page_size: usize, transaction: Option<u64>) -> Shape {
    Shape { page_size, transaction }
}

#[pyclass(frozen, module = "loader._native")]
pub struct PagePacks(Arc<Assembly>);

#[pymethods]
impl PagePacks {
    #[new]
    fn new(packs: Vec<(u32, PathBuf, PathBuf, Vec<u8>)>, page_size: usize, transaction: Option<u64>) -> PyResult<Self> {
        let opened =
            packs.iter().map(|(number, path, name, index)| Ok((*number, Pack::open(path, name, index, page_size)?)));
        let opened: common::Result<Vec<_>> = opened.collect();
        let assembly = |packs| Assembly::new(packs, shape(page_size, transaction));
        Ok(Self(Arc::new(raised(opened.map(assembly))?)))
    }

    /// `head` is both meta pages; `pieces` are the segments, each with its XXH3 checksum (big-endian).
    fn restore(
        &self,
        head: Vec<u8>,
        pieces: Vec<(SegmentFields, [u8; 16])>,
        own: u32,
        fd: Descriptor,
        threads: usize,
        counters: &Counters,
    ) -> PyResult<()> {
        let file = File::from(fd.0);
        let piece = |(of, sum)| Piece { segment: segment(of), sum: u128::from_be_bytes(sum) };
        let pieces: Vec<_> = pieces.into_iter().map(piece).collect();
        let backup = Backup { head: &head, pieces: &pieces, own };
        counters.run(|counters| self.0.restore(&backup, &file, threads, counters))
    }
}

#[pyclass(frozen, module = "loader._native")]
#[derive(Debug, Default)]
pub struct KnownPages(pagestore::Known);

#[pymethods]
impl KnownPages {
    #[new]
    fn new(packs: Option<&PagePacks>, segments: Vec<SegmentFields>, own: u32, again: u64) -> PyResult<Self> {
        let Some(PagePacks(packs)) = packs else { return Ok(Self::default()) };
        let segments: Vec<_> = segments.into_iter().map(segment).collect();
        detached(|| pagestore::Known::of(Arc::clone(packs), &segments, own, again)).map(Self)
    }

    fn sift<'py>(
        &self,
        py: Python<'py>,
        data: &PageBlock,
        first: u64,
        own: u32,
        page_size: usize,
        transaction: Option<u64>,
        level: i32,
    ) -> PyResult<SiftedFields<'py>> {
        let shape = shape(page_size, transaction);
        let sifted = detached(|| pagestore::sift(&self.0, shape, own, &data.0, first, level))?;
        let bytes = |bytes: &[u8]| PyBytes::new(py, bytes);
        let sum = sifted.sum.to_be_bytes();
        let fields = [&sifted.runs[..], &sifted.frames, &sifted.entries, &sum].map(bytes);
        Ok((fields, sifted.fresh))
    }

    fn used(&self) -> Vec<(u32, u64)> {
        self.0.used()
    }
}
