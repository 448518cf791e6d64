//! What must hold of a page before anything on it is followed: the one place where numbers and offsets that a file tells
//! are checked against the file.

use std::ops::Range;
use std::sync::Arc;

use disk::Buffer;

use crate::layout::{META_PAGES, page};
use crate::reader::View;
use crate::{Error, Layout, Result};

/// The pages that a file has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub layout: Layout,
    /// Pages that are in use at most: all numbers are below it.
    pub pages: u64,
}

impl Bounds {
    /// A number of a page of a tree.
    pub fn check(&self, number: u64) -> Result<()> {
        if (META_PAGES..self.pages).contains(&number) {
            return Ok(());
        }
        Err(Error::corrupt(number, "a page that is outside of the file"))
    }

    /// The page of a tree in that part of a block, which may end before it.
    pub fn view(&self, block: Arc<Buffer>, range: Range<usize>, number: u64) -> Result<View> {
        let page = block.get(range.clone()).ok_or_else(|| cut(number))?;
        if Layout::number(page) != number {
            return Err(misplaced(number));
        }
        View::page(block, range, self.layout).map_err(|what| Error::corrupt(number, what))
    }

    /// How many pages the value of `size` bytes has that begins on the page of this `header`; LMDB leaves it more than it
    /// needs when a shorter one replaces it.
    pub fn overflow_pages(&self, header: &[u8], first: u64, size: usize) -> Result<u64> {
        self.check(first)?;
        let pages = u64::from(Layout::overflow_count(header));
        let what = if Layout::number(header) != first {
            return Err(misplaced(first));
        } else if Layout::header(header).flags & page::OVERFLOW == 0 {
            "a large value that is on no overflow page"
        } else if pages < self.layout.overflow_pages(size) {
            "a large value on too few overflow pages"
        } else if pages > self.pages - first {
            "overflow pages that go beyond the end of the file"
        } else {
            return Ok(pages);
        };
        Err(Error::corrupt(first, what))
    }
}

/// The file is shorter than its meta page says.
pub(crate) fn cut(number: u64) -> Error {
    Error::corrupt(number, "the file ends before this page")
}

fn misplaced(number: u64) -> Error {
    Error::corrupt(number, "a page with another number than its place")
}
