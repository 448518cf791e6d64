//! Pages of the file by their numbers, many at a time.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};

use disk::Buffer;
use rustix::fs::{Advice, fadvise};

use crate::layout::{META_PAGES, page};
use crate::reader::View;
use crate::{Error, Layout, Result};

/// The source. What the page cache has is taken from there.
#[derive(Debug)]
pub(super) struct Pages<'f> {
    file: &'f File,
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

/// A value on overflow pages: the first of these and how many LMDB has given it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Large {
    pub first: u64,
    pub pages: u64,
}

impl<'f> Pages<'f> {
    pub fn new(file: &'f File, layout: Layout, count: u64) -> Self {
        Self { file, layout, count, spare: Mutex::default() }
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

    /// Has the kernel read them in before they are asked for.
    pub fn advise(&self, numbers: &[u64]) {
        for (first, count) in runs(numbers) {
            self.advise_run(first, count as u64);
        }
    }

    pub fn advise_run(&self, first: u64, count: u64) {
        let size = self.layout.page_size as u64;
        let Some(start) = first.checked_mul(size) else { return };
        let length = count.saturating_mul(size).try_into().ok();
        // It is a hint: reading without it tells what is wrong.
        let _ = fadvise(self.file, start, length, Advice::WillNeed);
    }

    fn read(&self, numbers: &[u64]) -> Result<Buffer> {
        let size = self.layout.page_size;
        let mut buffer = self.buffer(numbers.len() * size);
        for (first, count) in runs(numbers) {
            self.check(first)?;
            self.check(first + count as u64 - 1)?;
            let room = &mut buffer.room()[..count * size];
            self.read_at(room, first * size as u64, first)?;
            buffer.fill(count * size);
        }
        Ok(buffer)
    }

    fn buffer(&self, size: usize) -> Buffer {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = spare.iter_mut().position(|buffer| buffer.room().len() >= size);
        match fits {
            Some(at) if size >= KEPT => spare.swap_remove(at),
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
        self.file.read_exact_at(room, offset).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                Error::corrupt(number, "the file ends before this page")
            }
            _ => error.into(),
        })
    }

    fn check(&self, number: u64) -> Result<()> {
        if (META_PAGES..self.count).contains(&number) {
            return Ok(());
        }
        Err(Error::corrupt(number, "a page that is outside of the file"))
    }
}

/// Neighbours together: the first of them, and how many.
pub(super) fn runs(numbers: &[u64]) -> impl Iterator<Item = (u64, usize)> + '_ {
    let runs = numbers.chunk_by(|here, next| here.checked_add(1) == Some(*next));
    runs.map(|run| (run[0], run.len()))
}
