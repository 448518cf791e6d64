//! A file under construction: its pages in sequence, and at the end the main table and meta pages.

use std::path::Path;

use crate::layout::{META_PAGES, node};
use crate::meta::Meta;
use crate::output::Output;
use crate::{Error, ErrorKind, Flags, Format, Layout, Reader, Result, Table, TreeWriter};

/// Bytes of a large value that are in memory at a time.
const PART: usize = 1 << 20;

#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub format: Format,
    /// Bytes of a page, a power of two from 4096 to 32768; LMDB makes it the machine's page size.
    pub page_size: u32,
    /// The size in bytes that LMDB may let the file grow to; no more is written here either.
    pub map_size: u64,
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    pub pages: u64,
    pub bytes: u64,
}

/// Takes pages in sequence. Any number of [`TreeWriter`]s may write to it in turns.
#[derive(Debug)]
pub struct FileWriter {
    layout: Layout,
    output: Output,
    map_size: u64,
    most_pages: u64,
    pages: u64,
    /// Pages whose content comes late, with their offsets.
    late: Vec<(u64, Vec<u8>)>,
}

impl FileWriter {
    /// An existing file is emptied.
    pub fn create(path: &Path, options: &Options) -> Result<Self> {
        let layout = Layout::new(options.format, options.page_size)?;
        let mut file = Self {
            layout,
            output: Output::create(path)?,
            map_size: options.map_size,
            most_pages: options.map_size / layout.page_size as u64,
            pages: 0,
            late: Vec::new(),
        };
        for _ in 0..META_PAGES {
            file.reserve()?;
        }
        Ok(file)
    }

    /// Goes on past the last page of a snapshot.
    pub(crate) fn past(of: &Reader, path: &Path, map_size: u64) -> Result<Self> {
        let (layout, pages) = (of.layout(), of.pages());
        let size = layout.page_size as u64;
        let output = Output::past(path, pages * size)?;
        Ok(Self { layout, output, map_size, most_pages: map_size / size, pages, late: Vec::new() })
    }

    pub fn layout(&self) -> Layout {
        self.layout
    }

    pub(crate) fn map_size(&self) -> u64 {
        self.map_size
    }

    /// Pages so far, the meta pages among them.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Numbers the page and writes it.
    pub(crate) fn append(&mut self, page: &mut [u8]) -> Result<u64> {
        let number = self.allocate(1)?;
        Layout::put_number(page, number);
        self.output.write(page)?;
        Ok(number)
    }

    /// A page whose content comes with [`Self::replace`].
    pub(crate) fn reserve(&mut self) -> Result<u64> {
        let number = self.allocate(1)?;
        self.output.zeros(self.layout.page_size)?;
        Ok(number)
    }

    pub(crate) fn replace(&mut self, number: u64, mut page: Vec<u8>) {
        Layout::put_number(&mut page, number);
        self.late.push((number * self.layout.page_size as u64, page));
    }

    /// Writes a value of `size` bytes to overflow pages: the number of the first.
    pub(crate) fn overflow(&mut self, parts: &[&[u8]], size: usize) -> Result<u64> {
        let pages = self.layout.overflow_pages(size);
        let number = self.allocate(pages)?;
        let count = u32::try_from(pages).unwrap_or(u32::MAX);
        let header = Layout::overflow_header(number, count);
        self.output.write(&header)?;
        for part in parts {
            self.output.write(part)?;
        }
        let room = usize::try_from(pages).unwrap_or(usize::MAX) * self.layout.page_size;
        self.output.zeros(room - header.len() - size)?;
        Ok(number)
    }

    /// The same, `part` being asked for the bytes from an offset on.
    pub(crate) fn overflow_in_parts(
        &mut self,
        size: usize,
        mut part: impl FnMut(usize, &mut [u8]) -> Result<()>,
    ) -> Result<u64> {
        let pages = self.layout.overflow_pages(size);
        let number = self.allocate(pages)?;
        let header = Layout::overflow_header(number, u32::try_from(pages).unwrap_or(u32::MAX));
        self.output.write(&header)?;
        let mut room = vec![0; size.min(PART)];
        for from in (0..size).step_by(PART) {
            let count = PART.min(size - from);
            part(from, &mut room[..count])?;
            self.output.write(&room[..count])?;
        }
        let whole = usize::try_from(pages).unwrap_or(usize::MAX) * self.layout.page_size;
        self.output.zeros(whole - header.len() - size)?;
        Ok(number)
    }

    fn allocate(&mut self, pages: u64) -> Result<u64> {
        let first = self.pages;
        if first + pages > self.most_pages {
            let size = self.map_size;
            let message = format!("the map size of {size} bytes is too small for the database");
            return Err(Error::new(ErrorKind::Full, message));
        }
        self.pages = first + pages;
        Ok(first)
    }

    /// Writes the main table and both meta pages, and waits until the disk has the whole file.
    ///
    /// `tables`: each with its name, in any order.
    pub fn finish(mut self, mut tables: Vec<(Vec<u8>, Table)>) -> Result<Summary> {
        tables.sort_unstable_by(|left, right| left.0.cmp(&right.0));
        let mut main = TreeWriter::new(Flags::NONE, self.layout);
        for (name, table) in tables {
            let name = self.layout.stored_name(&name);
            main.put_node(&mut self, &name, &[&table.encode()], node::SUBDATA)?;
        }
        let main = main.finish(&mut self)?;
        self.seal(main, 1)
    }

    /// Writes both meta pages, and waits until the disk has the whole file.
    pub(crate) fn seal(mut self, main: Table, txn: u64) -> Result<Summary> {
        self.put_metas(main, txn);
        let bytes = self.pages * self.layout.page_size as u64;
        self.output.finish(&self.late)?;
        Ok(Summary { pages: self.pages, bytes })
    }

    /// Waits until the disk has all pages, then writes the one meta page, and waits again. `before`: called before the meta
    /// page. Transaction N writes meta page N % 2.
    pub(crate) fn switch(self, meta: &Meta, before: &mut dyn FnMut()) -> Result<Summary> {
        let (number, size) = (meta.txn % META_PAGES, self.layout.page_size as u64);
        let page = self.layout.meta_page(number, meta);
        self.output.switch(&self.late, &(number * size, page), before)?;
        Ok(Summary { pages: self.pages, bytes: self.pages * size })
    }

    /// Two equal snapshots, so that either alone is enough. Transaction N writes meta page N % 2.
    #[allow(clippy::cast_possible_truncation)] // Page sizes end at 32768.
    fn put_metas(&mut self, main: Table, newest: u64) {
        let pad = self.layout.page_size as u32;
        let free = Table { pad, ..Table::empty(Flags::INTEGERKEY) };
        for number in 0..META_PAGES {
            let txn = newest.saturating_sub(u64::from(newest % 2 != number));
            let last_page = self.pages - 1;
            let meta = Meta { map_size: self.map_size, free, main, last_page, txn };
            let page = self.layout.meta_page(number, &meta);
            self.replace(number, page);
        }
    }
}
