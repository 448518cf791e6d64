//! The file, from which all readers have their pages: through the page cache or past it, ahead of time, one or many. The
//! numbers that the file tells are checked here before anything is read.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use disk::{Buffer, BufferPool, Direct, Readahead, Source};

use crate::layout::META_PAGES;
use crate::reader::View;
use crate::{Error, Layout, Result};

/// Of the file, this part may be read in blocks for the sake of single pages. All that was read so is read again
/// afterwards; to read all of the file for the sake of fewer lookups would cost more than it spares.
const SOUGHT: u64 = 8;

/// What the page cache has is taken from there. Of the rest neighbours are read past it, and what lies alone is read into
/// it ahead.
#[derive(Debug)]
pub(crate) struct PageSource {
    source: Source,
    /// For trees whose pages lie in no order.
    ahead: Option<Arc<Readahead>>,
    /// Bytes that were read for the sake of single pages among them.
    sought: AtomicU64,
    spare: Arc<BufferPool>,
    pub layout: Layout,
    /// The transaction of the snapshot.
    txn: u64,
    /// Pages that are in use at most, those up to the last one that are in the file: all numbers are below it.
    pub pages: u64,
}

/// What a node tells of a value on overflow pages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LargeNode {
    pub first: u64,
    /// Bytes of the value.
    pub size: usize,
    /// In format 3 it tells how many they are, too.
    pub pages: Option<u32>,
}

/// A value on overflow pages: the first of these and how many LMDB has given it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Large {
    pub first: u64,
    pub pages: u64,
}

impl PageSource {
    /// `pages` are in the file, `txn` is the transaction of the snapshot.
    pub fn open(path: &Path, file: File, layout: Layout, pages: u64, txn: u64) -> Result<Self> {
        let ahead = Readahead::new(&file, pages * layout.page_size as u64)?;
        let source = Self::cached(Direct::new(file, path)?, layout, pages, txn);
        Ok(Self { ahead: Some(ahead), ..source })
    }

    /// Nothing is read ahead.
    pub fn cached(file: Direct, layout: Layout, pages: u64, txn: u64) -> Self {
        let (sought, spare) = Default::default();
        Self { source: Source::new(file), ahead: None, sought, spare, layout, txn, pages }
    }

    /// A number of a page of a tree.
    pub fn check(&self, number: u64) -> Result<()> {
        if (META_PAGES..self.pages).contains(&number) {
            return Ok(());
        }
        Err(Error::corrupt(number, "a page that is outside of the file"))
    }

    /// The page of a tree in that part of a block, which may end before it.
    pub fn view_in(&self, block: Arc<Buffer>, range: Range<usize>, number: u64) -> Result<View> {
        let page = block.get(range.clone()).ok_or_else(|| cut(number))?;
        let right = self.layout.check_number(page, number, self.txn);
        right.map_err(|what| Error::corrupt(number, what))?;
        View::page(block, range, self.layout).map_err(|what| Error::corrupt(number, what))
    }

    /// The value that begins on the page of this `header`; LMDB leaves it more pages than it needs when a shorter one
    /// replaces it.
    pub fn large(&self, header: &[u8], node: LargeNode) -> Result<Large> {
        let LargeNode { first, size, pages: told } = node;
        self.check(first)?;
        let count = self.layout.overflow_count(header);
        let pages = u64::from(count);
        let what = if let Err(what) = self.layout.check_number(header, first, self.txn) {
            what
        } else if !self.layout.is_overflow(header) {
            "a large value that is on no overflow page"
        } else if told.is_some_and(|told| told != count) {
            "a large value on another number of overflow pages than its node tells"
        } else if pages < self.layout.overflow_pages(size) {
            "a large value on too few overflow pages"
        } else if pages > self.pages - first {
            "overflow pages that go beyond the end of the file"
        } else {
            return Ok(Large { first, pages });
        };
        Err(Error::corrupt(first, what))
    }

    /// Bytes of a large value, from its byte `from` on.
    pub fn part(&self, value: Large, from: usize, room: &mut [u8]) -> Result<()> {
        let start = value.first * self.layout.page_size as u64;
        let offset = start + (self.layout.page_header() + from) as u64;
        self.read_at(room, offset, value.first)
    }

    /// As many bytes of the file as there is room for, `number` being the page with the first of them.
    pub fn read_at(&self, room: &mut [u8], offset: u64, number: u64) -> Result<()> {
        match self.source.file().read_exact_at(room, offset) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(cut(number)),
            result => Ok(result?),
        }
    }

    /// Fills rooms of whole pages one after the other, less at the end of the file. What the cache has not all of is read
    /// past it, unless it is `scattered`.
    pub fn read(
        &self,
        rooms: &mut [IoSliceMut<'_>],
        offset: u64,
        scattered: bool,
    ) -> Result<usize> {
        Ok(self.source.read_rooms(rooms, offset, scattered)?)
    }

    /// Whether the cache has these bytes.
    pub fn has(&self, offset: u64, count: usize) -> bool {
        self.source.has(offset, count)
    }

    /// These pages, one after the other and as they are; runs of them that are `long` are read past the cache.
    pub fn many(&self, numbers: &[u64], long: impl Fn(usize) -> bool) -> Result<Buffer> {
        let size = self.layout.page_size;
        let mut buffer = self.spare.buffer(numbers.len() * size);
        for (first, count) in runs(numbers) {
            self.check(first)?;
            self.check(first + count as u64 - 1)?;
            let room = &mut buffer.room()[..count * size];
            let offset = first * size as u64;
            if !long(count) {
                self.read_at(room, offset, first)?;
            } else if self.source.read(room, offset)? < room.len() {
                return Err(cut(first));
            }
            buffer.fill(count * size);
        }
        Ok(buffer)
    }

    /// Pages that will be read, for whoever reads them in no order.
    pub fn want(&self, first: u64, count: u64) {
        let size = self.layout.page_size as u64;
        if let Some(ahead) = &self.ahead {
            ahead.request(first.saturating_mul(size), count.saturating_mul(size));
        }
    }

    /// The same of what stands among pages that are read otherwise.
    pub fn want_only(&self, (first, count): (u64, usize)) {
        let size = self.layout.page_size as u64;
        if let Some(ahead) = &self.ahead {
            ahead.want_only(first.saturating_mul(size), count as u64 * size);
        }
    }

    /// One page is sought, and a block of so many bytes is read for it: whether all of the file should rather be in the
    /// page cache, where it has room.
    pub fn seek(&self, block: usize) -> bool {
        let sought = self.sought.fetch_add(block as u64, Relaxed);
        let length = self.pages * self.layout.page_size as u64;
        sought > length / SOUGHT && self.ahead.as_ref().is_some_and(|ahead| ahead.has_room())
    }

    /// All of the file will be read, in no order.
    pub fn want_all(&self) {
        self.ahead.iter().for_each(Readahead::read_whole_file);
    }
}

/// Neighbours together: the first of them, and how many.
pub(crate) fn runs(numbers: &[u64]) -> impl Iterator<Item = (u64, usize)> + '_ {
    let runs = numbers.chunk_by(|here, next| here.checked_add(1) == Some(*next));
    runs.map(|run| (run[0], run.len()))
}

/// The file is shorter than its meta page says.
pub(crate) fn cut(number: u64) -> Error {
    Error::corrupt(number, "the file ends before this page")
}
