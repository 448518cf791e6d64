//! Reads pages for all readers of a file: through the page cache or past it, with readahead, one page or many. Page
//! numbers are checked here before a page is read.

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

/// Look-ups of single pages read blocks until these amount to 1/`LOOKUP_SHARE` of the file. Then the whole file is
/// read, including these blocks. An earlier switch would cost more than it saves.
const LOOKUP_SHARE: u64 = 8;

/// Reads cached pages from the page cache. Other pages are read past the page cache if they are contiguous; single
/// pages are read into it ahead.
#[derive(Debug)]
pub(crate) struct PageSource {
    source: Source,
    /// Readahead for trees whose pages are not in the order of the file.
    ahead: Option<Arc<Readahead>>,
    /// Bytes of the blocks that were read for look-ups of single pages.
    lookup_bytes: AtomicU64,
    spare: Arc<BufferPool>,
    pub layout: Layout,
    /// The transaction of the snapshot.
    txn: u64,
    /// Number of pages of the snapshot that the file has. All page numbers must be less than this number.
    pub pages: u64,
}

/// A node's reference to a value on overflow pages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LargeNode {
    pub first: u64,
    /// Bytes of the value.
    pub size: usize,
    /// Number of overflow pages; `None` in format 1, which does not store it.
    pub pages: Option<u32>,
}

/// A value on overflow pages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Large {
    pub first: u64,
    /// Number of pages that LMDB allocated.
    pub pages: u64,
}

impl PageSource {
    /// `pages` is the number of pages that the file has, and `txn` the transaction of the snapshot.
    pub fn open(path: &Path, file: File, layout: Layout, pages: u64, txn: u64) -> Result<Self> {
        let ahead = Readahead::new(&file, pages * layout.page_size as u64)?;
        let source = Self::cached(Direct::new(file, path)?, layout, pages, txn);
        Ok(Self { ahead: Some(ahead), ..source })
    }

    /// Returns a source without readahead.
    pub fn cached(file: Direct, layout: Layout, pages: u64, txn: u64) -> Self {
        let (lookup_bytes, spare) = Default::default();
        Self { source: Source::new(file), ahead: None, lookup_bytes, spare, layout, txn, pages }
    }

    /// Refuses the number of a meta page, or of a page that the file does not have.
    pub fn check(&self, number: u64) -> Result<()> {
        if (META_PAGES..self.pages).contains(&number) {
            return Ok(());
        }
        Err(Error::corrupt(number, "a page that is outside of the file"))
    }

    /// Returns a view of page `number`, which is in `range` of a block. Fails if the block ends before the page does.
    pub fn view_in(&self, block: Arc<Buffer>, range: Range<usize>, number: u64) -> Result<View> {
        let page = block.get(range.clone()).ok_or_else(|| cut(number))?;
        let checked = self.layout.check_number(page, number, self.txn);
        checked.map_err(|what| Error::corrupt(number, what))?;
        View::page(block, range, self.layout).map_err(|what| Error::corrupt(number, what))
    }

    /// Checks a value whose first page has this `header`. The value may have more pages than it needs, because LMDB
    /// keeps all pages of a longer value that it has replaced.
    pub fn large(&self, header: &[u8], node: LargeNode) -> Result<Large> {
        let LargeNode { first, size, pages: stored } = node;
        self.check(first)?;
        let count = self.layout.overflow_count(header);
        let pages = u64::from(count);
        let what = if let Err(what) = self.layout.check_number(header, first, self.txn) {
            what
        } else if !self.layout.is_overflow(header) {
            "a large value that is on no overflow page"
        } else if stored.is_some_and(|stored| stored != count) {
            "a large value on another number of overflow pages than its node says"
        } else if pages < self.layout.overflow_pages(size) {
            "a large value on too few overflow pages"
        } else if pages > self.pages - first {
            "overflow pages that go beyond the end of the file"
        } else {
            return Ok(Large { first, pages });
        };
        Err(Error::corrupt(first, what))
    }

    /// Fills `room` with the bytes of a value from offset `from` on.
    pub fn part(&self, value: Large, from: usize, room: &mut [u8]) -> Result<()> {
        let first_page = value.first * self.layout.page_size as u64;
        let offset = first_page + (self.layout.page_header() + from) as u64;
        self.read_at(room, offset, value.first)
    }

    /// Fills `room` from `offset`. `number` is the page at this offset, for errors.
    pub fn read_at(&self, room: &mut [u8], offset: u64, number: u64) -> Result<()> {
        match self.source.file().read_exact_at(room, offset) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(cut(number)),
            result => Ok(result?),
        }
    }

    /// Fills buffers of whole pages in order, and returns the number of bytes read, which is less than requested only
    /// at the end of the file. Reads past the page cache unless all bytes are cached or `scattered` is set.
    pub fn read(&self, rooms: &mut [IoSliceMut<'_>], offset: u64, scattered: bool) -> Result<usize> {
        Ok(self.source.read_rooms(rooms, offset, scattered)?)
    }

    /// Returns whether the page cache has these bytes.
    pub fn has(&self, offset: u64, count: usize) -> bool {
        self.source.has(offset, count)
    }

    /// Reads the pages into one buffer in the order of `numbers`, and does not check their contents. Runs of at least
    /// `long_run` bytes are read past the page cache.
    pub fn read_many(&self, numbers: &[u64], long_run: usize) -> Result<Buffer> {
        let size = self.layout.page_size;
        let mut buffer = self.spare.buffer(numbers.len() * size);
        for (first, count) in runs(numbers) {
            self.check(first)?;
            self.check(first + count as u64 - 1)?;
            let room = &mut buffer.room()[..count * size];
            let offset = first * size as u64;
            if room.len() < long_run {
                self.read_at(room, offset, first)?;
            } else if self.source.read(room, offset)? < room.len() {
                return Err(cut(first));
            }
            buffer.fill(count * size);
        }
        Ok(buffer)
    }

    /// Starts readahead of pages that will be read soon.
    pub fn prefetch(&self, first: u64, count: u64) {
        let size = self.layout.page_size as u64;
        if let Some(ahead) = &self.ahead {
            ahead.request(first.saturating_mul(size), count.saturating_mul(size));
        }
    }

    /// Starts readahead of a run of pages whose neighbours are read past the page cache.
    pub fn prefetch_run(&self, (first, count): (u64, usize)) {
        let size = self.layout.page_size as u64;
        if let Some(ahead) = &self.ahead {
            ahead.request_run(first.saturating_mul(size), count as u64 * size);
        }
    }

    /// Counts a block of this many bytes, which is read to look up a single page. Returns whether the whole file should
    /// now be read into the page cache, which also requires enough memory.
    pub fn count_lookup(&self, block: usize) -> bool {
        let lookup_bytes = self.lookup_bytes.fetch_add(block as u64, Relaxed);
        let length = self.pages * self.layout.page_size as u64;
        lookup_bytes > length / LOOKUP_SHARE && self.ahead.as_ref().is_some_and(|ahead| ahead.has_room())
    }

    /// Starts readahead of the whole file.
    pub fn prefetch_all(&self) {
        self.ahead.iter().for_each(Readahead::read_whole_file);
    }
}

/// Groups consecutive numbers. Returns the first number and the length of each run.
pub(crate) fn runs(numbers: &[u64]) -> impl Iterator<Item = (u64, usize)> + '_ {
    let runs = numbers.chunk_by(|here, next| here.checked_add(1) == Some(*next));
    runs.map(|run| (run[0], run.len()))
}

/// Returns an error for a file that is shorter than its meta page says.
pub(crate) fn cut(number: u64) -> Error {
    Error::corrupt(number, "the file ends before this page")
}
