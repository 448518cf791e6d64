//! Pages of the file by their numbers, many at a time.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use disk::{Buffer, BufferPool, Readahead, Source};

use crate::bounds::{Bounds, cut};
use crate::reader::View;
use crate::{Error, Layout, Result};

/// The source. What the page cache has is taken from there; of the rest neighbours are read past it,
/// and what lies alone is read into it ahead.
#[derive(Debug)]
pub(super) struct Pages {
    source: Source,
    ahead: Arc<Readahead>,
    pub layout: Layout,
    /// All numbers are below it.
    count: u64,
    spare: Arc<BufferPool>,
}

/// Bytes of neighbours that are read past the cache.
const LONG: usize = 128 << 10;
/// Pages between two that are read with them: a device takes no longer for them than for another request.
const NEAR: u64 = 8;

/// A value on overflow pages: the first of these and how many LMDB has given it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Large {
    pub first: u64,
    pub pages: u64,
}

impl Pages {
    pub fn new(source: Source, layout: Layout, count: u64) -> Result<Self> {
        let ahead = Readahead::new(source.file(), count * layout.page_size as u64)?;
        Ok(Self { source, ahead, layout, count, spare: Arc::default() })
    }

    /// The pages, checked, in the order of `numbers`.
    pub fn views(&self, numbers: &[u64]) -> Result<Vec<View>> {
        let block = Arc::new(self.read(numbers)?);
        let view = |(at, &number)| self.view_in(&block, at, number);
        numbers.iter().enumerate().map(view).collect()
    }

    /// The page at this place among those that were read together, checked.
    pub fn view_in(&self, block: &Arc<Buffer>, at: usize, number: u64) -> Result<View> {
        let size = self.layout.page_size;
        let range = at * size..(at + 1) * size;
        self.bounds().view(Arc::clone(block), range, number)
    }

    pub fn view(&self, number: u64) -> Result<View> {
        let view = self.views(&[number])?.pop();
        view.ok_or_else(|| Error::corrupt(number, "the page is not there"))
    }

    /// The value whose overflow pages begin at `first`.
    pub fn large(&self, first: u64, size: usize) -> Result<Large> {
        self.bounds().check(first)?;
        let mut header = [0; 16];
        self.read_at(&mut header, first * self.layout.page_size as u64, first)?;
        self.overflow(&header, first, size)
    }

    /// The same, `header` being that of its first page.
    pub fn overflow(&self, header: &[u8], first: u64, size: usize) -> Result<Large> {
        let pages = self.bounds().overflow_pages(header, first, size)?;
        Ok(Large { first, pages })
    }

    /// Bytes of a large value, from its byte `from` on.
    pub fn part(&self, value: Large, from: usize, room: &mut [u8]) -> Result<()> {
        let start = value.first * self.layout.page_size as u64;
        let offset = start + (self.layout.page_header + from) as u64;
        self.read_at(room, offset, value.first)
    }

    /// Branches that will be read, between leaves that are read together.
    pub fn want_branches(&self, numbers: &[u64]) {
        runs(numbers).for_each(|run| self.want_only(run));
    }

    /// Pages that will be read now.
    pub fn want(&self, numbers: &[u64]) {
        let runs: Vec<_> = runs(numbers).collect();
        let mut short = Vec::new();
        for (at, &run) in runs.iter().enumerate() {
            if self.is_long(run.1) {
                continue;
            }
            if self.is_beside_long(&runs, at) {
                self.want_only(run);
            } else {
                short.push(run);
            }
        }
        for (first, count) in near(short) {
            self.want_run(first, count);
        }
    }

    /// Whether a run stands next to one that is read past the cache, with all that is around.
    fn is_beside_long(&self, runs: &[(u64, usize)], at: usize) -> bool {
        let (before, after) = (at.checked_sub(1).map(|one| runs[one]), runs.get(at + 1));
        let end = |run: (u64, usize)| run.0.saturating_add(run.1 as u64);
        before.is_some_and(|one| self.is_long(one.1) && is_near(end(one), runs[at].0))
            || after.is_some_and(|one| self.is_long(one.1) && is_near(end(runs[at]), one.0))
    }

    fn want_only(&self, (first, count): (u64, usize)) {
        let size = self.layout.page_size as u64;
        self.ahead.want_only(first.saturating_mul(size), count as u64 * size);
    }

    /// Whether a run is better read past the cache.
    fn is_long(&self, count: usize) -> bool {
        count * self.layout.page_size >= LONG
    }

    pub fn want_run(&self, first: u64, count: u64) {
        let size = self.layout.page_size as u64;
        self.ahead.request(first.saturating_mul(size), count.saturating_mul(size));
    }

    /// In the order of `numbers`, as they are.
    pub fn read(&self, numbers: &[u64]) -> Result<Buffer> {
        self.read_by(numbers, |count| self.is_long(count))
    }

    /// The same of what is on its way into the cache.
    pub fn read_cached(&self, numbers: &[u64]) -> Result<Buffer> {
        self.read_by(numbers, |_| false)
    }

    fn read_by(&self, numbers: &[u64], past_cache: impl Fn(usize) -> bool) -> Result<Buffer> {
        let size = self.layout.page_size;
        let mut buffer = self.spare.buffer(numbers.len() * size);
        for (first, count) in runs(numbers) {
            self.bounds().check(first)?;
            self.bounds().check(first + count as u64 - 1)?;
            let room = &mut buffer.room()[..count * size];
            let offset = first * size as u64;
            if past_cache(count) {
                if self.source.read(room, offset)? < room.len() {
                    return Err(cut(first));
                }
            } else {
                self.read_at(room, offset, first)?;
            }
            buffer.fill(count * size);
        }
        Ok(buffer)
    }

    fn read_at(&self, room: &mut [u8], offset: u64, number: u64) -> Result<()> {
        match self.source.file().read_exact_at(room, offset) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(cut(number)),
            result => Ok(result?),
        }
    }

    const fn bounds(&self) -> Bounds {
        Bounds { layout: self.layout, pages: self.count }
    }
}

/// Neighbours together: the first of them, and how many.
pub(super) fn runs(numbers: &[u64]) -> impl Iterator<Item = (u64, usize)> + '_ {
    let runs = numbers.chunk_by(|here, next| here.checked_add(1) == Some(*next));
    runs.map(|run| (run[0], run.len()))
}

/// Runs with what is between them, if that is little.
fn near(runs: Vec<(u64, usize)>) -> Vec<(u64, u64)> {
    let mut spans: Vec<(u64, u64)> = Vec::new();
    for (first, count) in runs {
        let count = count as u64;
        match spans.last_mut() {
            Some((start, length)) if is_near(start.saturating_add(*length), first) => {
                *length = first - *start + count;
            }
            _ => spans.push((first, count)),
        }
    }
    spans
}

fn is_near(end: u64, first: u64) -> bool {
    first.checked_sub(end).is_some_and(|between| between <= NEAR)
}
