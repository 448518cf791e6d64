//! Pages of the file by their numbers, many at a time.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use disk::{Ahead, Buffer, Source};

use crate::layout::{META_PAGES, page};
use crate::reader::View;
use crate::{Error, Layout, Result};

/// The source. What the page cache has is taken from there; of the rest neighbours are read past it,
/// and what lies alone is read into it ahead.
#[derive(Debug)]
pub(super) struct Pages {
    source: Source,
    ahead: Arc<Ahead>,
    pub layout: Layout,
    /// All numbers are below it.
    count: u64,
    /// Memory of pages that nobody looks at any more: to have new memory mapped costs more than to
    /// read the pages.
    spare: Mutex<Vec<Buffer>>,
}

/// Buffers that are kept at most.
const SPARE: usize = 16;
/// Bytes of the smallest that is kept.
const KEPT: usize = 64 << 10;
/// Bytes of neighbours that are read past the cache.
const LONG: usize = 128 << 10;

/// A value on overflow pages: the first of these and how many LMDB has given it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Large {
    pub first: u64,
    pub pages: u64,
}

impl Pages {
    pub fn new(source: Source, layout: Layout, count: u64) -> Result<Self> {
        let ahead = Ahead::new(source.file(), count * layout.page_size as u64)?;
        Ok(Self { source, ahead, layout, count, spare: Mutex::default() })
    }

    /// The pages, checked, in the order of `numbers`.
    pub fn views(&self, numbers: &[u64]) -> Result<Vec<View>> {
        let size = self.layout.page_size;
        let block = Arc::new(self.read(numbers)?);
        let views = numbers.iter().enumerate().map(|(at, &number)| {
            let range = at * size..(at + 1) * size;
            if Layout::number(&block[range.clone()]) != number {
                return Err(Error::corrupt(number, "a page with another number than its place"));
            }
            let view = View::page(Arc::clone(&block), range, self.layout);
            view.map_err(|what| Error::corrupt(number, what))
        });
        views.collect()
    }

    pub fn view(&self, number: u64) -> Result<View> {
        let view = self.views(&[number])?.pop();
        view.ok_or_else(|| Error::corrupt(number, "the page is not there"))
    }

    /// The value whose overflow pages begin at `first`.
    pub fn large(&self, first: u64, size: usize) -> Result<Large> {
        self.check(first)?;
        let mut header = [0; 16];
        self.read_at(&mut header, first * self.layout.page_size as u64, first)?;
        let pages = u64::from(Layout::overflow_count(&header));
        let what = if Layout::number(&header) != first {
            "a page with another number than its place"
        } else if Layout::header(&header).flags & page::OVERFLOW == 0 {
            "a large value that is on no overflow page"
        } else if pages < self.layout.overflow_pages(size) {
            "a large value on too few overflow pages"
        } else if pages > self.count - first {
            "overflow pages that go beyond the end of the file"
        } else {
            return Ok(Large { first, pages });
        };
        Err(Error::corrupt(first, what))
    }

    /// Bytes of a large value, from its byte `from` on.
    pub fn part(&self, value: Large, from: usize, room: &mut [u8]) -> Result<()> {
        let start = value.first * self.layout.page_size as u64;
        let offset = start + (self.layout.page_header + from) as u64;
        self.read_at(room, offset, value.first)
    }

    /// Branches that will be read, between leaves that are read together.
    pub fn want_branches(&self, numbers: &[u64]) {
        let size = self.layout.page_size as u64;
        for (first, count) in runs(numbers) {
            self.ahead.want_only(first.saturating_mul(size), count as u64 * size);
        }
    }

    /// Leaves that will be read now.
    pub fn want(&self, numbers: &[u64]) {
        for (first, count) in runs(numbers).filter(|run| !self.is_long(run.1)) {
            self.want_run(first, count as u64);
        }
    }

    /// Whether a run is better read past the cache. Where the file has no room in memory, what the kernel reads behind a
    /// run is all that is there of the single pages after it: past the cache that took five times as long.
    fn is_long(&self, count: usize) -> bool {
        self.ahead.has_room() && count * self.layout.page_size >= LONG
    }

    pub fn want_run(&self, first: u64, count: u64) {
        let size = self.layout.page_size as u64;
        self.ahead.want(first.saturating_mul(size), count.saturating_mul(size));
    }

    fn read(&self, numbers: &[u64]) -> Result<Buffer> {
        let size = self.layout.page_size;
        let mut buffer = self.buffer(numbers.len() * size);
        for (first, count) in runs(numbers) {
            self.check(first)?;
            self.check(first + count as u64 - 1)?;
            let room = &mut buffer.room()[..count * size];
            let offset = first * size as u64;
            if self.is_long(count) {
                whole(self.source.read(room, offset)? == room.len(), first)?;
            } else {
                self.read_at(room, offset, first)?;
            }
            buffer.fill(count * size);
        }
        Ok(buffer)
    }

    fn buffer(&self, size: usize) -> Buffer {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = spare.iter_mut().position(|buffer| buffer.room().len() >= size);
        match fits {
            Some(at) if size >= KEPT => spare.swap_remove(at),
            _ if size > disk::BUFFER / 2 => Buffer::new(size.next_multiple_of(disk::BUFFER)),
            _ => Buffer::new(size),
        }
    }

    /// Takes back the memory of pages that were read together.
    pub fn give_back(&self, views: impl Iterator<Item = View>) {
        let buffer = views.fold(None, |_, view| Arc::into_inner(view.into_block()));
        let Some(mut buffer) = buffer else { return };
        buffer.clear();
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE && buffer.room().len() >= KEPT {
            spare.push(buffer);
        }
    }

    fn read_at(&self, room: &mut [u8], offset: u64, number: u64) -> Result<()> {
        match self.source.file().read_exact_at(room, offset) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => whole(false, number),
            result => Ok(result?),
        }
    }

    fn check(&self, number: u64) -> Result<()> {
        if (META_PAGES..self.count).contains(&number) {
            return Ok(());
        }
        Err(Error::corrupt(number, "a page that is outside of the file"))
    }
}

fn whole(is: bool, number: u64) -> Result<()> {
    if is { Ok(()) } else { Err(Error::corrupt(number, "the file ends before this page")) }
}

/// Neighbours together: the first of them, and how many.
pub(super) fn runs(numbers: &[u64]) -> impl Iterator<Item = (u64, usize)> + '_ {
    let runs = numbers.chunk_by(|here, next| here.checked_add(1) == Some(*next));
    runs.map(|run| (run[0], run.len()))
}
