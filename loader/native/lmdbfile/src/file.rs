//! A file under construction: pages in sequence, then the main table and the meta pages. A separate thread writes the
//! pages past the page cache, or another thread receives them in pieces.

use std::ops::Range;
use std::path::{Path, PathBuf};

use common::killpoint;
use disk::{Buffer, DirectFile, DirectWriter, Fill, PieceWriter};

use crate::error::programming_error;
use crate::layout::{LargePointer, META_PAGES, node};
use crate::meta::Meta;
use crate::{Error, ErrorKind, Flags, Format, Layout, Reader, Result, Table, TreeWriter};

/// Bytes of a value that `FileWriter::overflow_in_parts` has in memory at once.
const PART: usize = 1 << 20;

#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub format: Format,
    /// Bytes of a page: a power of two from 4096 to 32768, or to 65536 in format 3. LMDB uses the page size of the
    /// machine.
    pub page_size: u32,
    /// The size in bytes beyond which neither LMDB nor this writer lets the file grow.
    pub map_size: u64,
}

/// Size of a written file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    pub pages: u64,
    pub bytes: u64,
}

/// Writes pages in sequence. If it continues a file, it first writes to runs of free pages. Any number of
/// [`TreeWriter`]s may write to it by turns.
#[derive(Debug)]
pub struct FileWriter {
    layout: Layout,
    output: Output,
    map_size: u64,
    /// The transaction number of the new snapshot.
    txn: u64,
    /// The transaction number that pages get. Only format 3 stores it.
    page_txn: u64,
    /// Number of pages of the file so far.
    pages: u64,
    /// The pages that are written next.
    room: Range<u64>,
    /// The runs of pages to be written after `room`, in reverse order.
    rooms: Vec<Range<u64>>,
    /// Free pages that were not written, because their run was too short for a value.
    unused: Vec<Range<u64>>,
    /// Pages that are written at the end.
    late: Vec<LatePage>,
}

impl FileWriter {
    /// Creates the file, or empties an existing one.
    pub fn create(path: &Path, options: &Options) -> Result<Self> {
        let create = || Output::disk(path, DirectWriter::create(path, MODE, disk::BUFFER));
        let mut file = Self::to(create, options)?;
        (file.pages, file.room.start) = (0, 0);
        for _ in 0..META_PAGES {
            file.reserve()?;
        }
        Ok(file)
    }

    /// Passes all pages except the meta pages to `pieces`.
    pub(crate) fn in_pieces(pieces: PieceWriter, options: &Options) -> Result<Self> {
        Self::to(|| Ok(Output { end: End::Pieces(pieces), path: PathBuf::new(), failure: None }), options)
    }

    fn to(output: impl FnOnce() -> Result<Output>, options: &Options) -> Result<Self> {
        let layout = Layout::new(options.format, options.page_size)?;
        Ok(Self {
            layout,
            output: output()?,
            map_size: options.map_size,
            txn: 1,
            page_txn: 0,
            pages: META_PAGES,
            room: META_PAGES..options.map_size / layout.page_size as u64,
            rooms: Vec::new(),
            unused: Vec::new(),
            late: Vec::new(),
        })
    }

    /// Gives the new snapshot the transaction number `txn`. Call it before any page is written.
    #[must_use]
    pub(crate) fn of_transaction(self, txn: u64) -> Self {
        // The meta pages have the transactions `txn - 1` and `txn`, and the pages must be valid for both.
        Self { txn, page_txn: txn.saturating_sub(1), ..self }
    }

    /// Continues the file of a snapshot: writes to `free` pages first, then after the last page.
    pub(crate) fn past(of: &Reader, path: &Path, map_size: u64, free: Vec<Range<u64>>) -> Result<Self> {
        let (layout, pages, late, txn) = (of.layout(), of.pages(), Vec::new(), of.txn() + 1);
        let size = layout.page_size as u64;
        let mut rooms = free;
        rooms.push(pages..map_size / size);
        rooms.reverse();
        let room = rooms.pop().unwrap_or_default();
        let output = Output::disk(path, DirectWriter::append(path, room.start * size, disk::BUFFER))?;
        let (page_txn, unused) = (txn, Vec::new());
        Ok(Self { layout, output, map_size, txn, page_txn, pages, room, rooms, unused, late })
    }

    /// Writes only after the last page from now on, and returns the free pages that were not written.
    pub(crate) fn leave_free(&mut self) -> Result<Vec<Range<u64>>> {
        while let Some(next) = self.rooms.pop() {
            self.unused.push(std::mem::replace(&mut self.room, next));
        }
        self.output.seek(self.room.start * self.layout.page_size as u64)?;
        Ok(std::mem::take(&mut self.unused))
    }

    pub fn layout(&self) -> Layout {
        self.layout
    }

    pub(crate) fn map_size(&self) -> u64 {
        self.map_size
    }

    /// Returns the number of pages of the file so far, including the meta pages.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Numbers the page, writes it, and returns its number.
    pub(crate) fn append(&mut self, page: &mut [u8]) -> Result<u64> {
        let number = self.allocate(1)?;
        self.layout.put_number(page, number, self.page_txn);
        self.output.write(page)?;
        Ok(number)
    }

    /// Returns the number of a new page, whose content [`Self::replace`] sets later.
    pub(crate) fn reserve(&mut self) -> Result<u64> {
        let number = self.allocate(1)?;
        self.output.zeros(self.layout.page_size)?;
        Ok(number)
    }

    pub(crate) fn replace(&mut self, number: u64, mut page: Vec<u8>) {
        self.layout.put_number(&mut page, number, self.page_txn);
        self.late.push((number * self.layout.page_size as u64, page));
    }

    /// Writes a value to overflow pages.
    pub(crate) fn overflow(&mut self, value: &[u8]) -> Result<LargePointer> {
        let pointer = self.begin_overflow(value.len())?;
        self.output.write(value)?;
        self.end_overflow(value.len())?;
        Ok(pointer)
    }

    /// Allocates overflow pages for a value of `size` bytes, and writes the header of the first.
    fn begin_overflow(&mut self, size: usize) -> Result<LargePointer> {
        let (pages, txn) = (self.layout.overflow_pages(size), self.page_txn);
        let number = self.allocate(pages)?;
        let count = u32::try_from(pages).unwrap_or(u32::MAX);
        let header = self.layout.overflow_header(number, txn, count);
        self.output.write(&header[..self.layout.page_header()])?;
        Ok(self.layout.large_pointer(number, txn, pages))
    }

    fn end_overflow(&mut self, size: usize) -> Result<()> {
        let used = self.layout.page_header() + size;
        self.output.zeros(used.next_multiple_of(self.layout.page_size) - used)
    }

    /// Writes a value of `size` bytes to overflow pages. Calls `part` with an offset in the value and a buffer for the
    /// bytes from there on.
    pub(crate) fn overflow_in_parts(
        &mut self,
        size: usize,
        mut part: impl FnMut(usize, &mut [u8]) -> Result<()>,
    ) -> Result<LargePointer> {
        let pointer = self.begin_overflow(size)?;
        let mut buffer = vec![0; size.min(PART)];
        for from in (0..size).step_by(PART) {
            let count = PART.min(size - from);
            part(from, &mut buffer[..count])?;
            self.output.write(&buffer[..count])?;
        }
        self.end_overflow(size)?;
        Ok(pointer)
    }

    /// Allocates `pages` consecutive pages, and returns the number of the first.
    fn allocate(&mut self, pages: u64) -> Result<u64> {
        while self.room.end.saturating_sub(self.room.start) < pages {
            let Some(next) = self.rooms.pop() else {
                let size = self.map_size;
                let message = format!("the map size of {size} bytes is too small for the database");
                return Err(Error::new(ErrorKind::Full, message));
            };
            self.unused.push(std::mem::replace(&mut self.room, next));
            self.output.seek(self.room.start * self.layout.page_size as u64)?;
        }
        let first = self.room.start;
        self.room.start += pages;
        self.pages = self.pages.max(self.room.start);
        Ok(first)
    }

    /// Writes the main table and both meta pages, and syncs the file. `tables` has the name and the record of each
    /// table, in any order.
    pub fn finish(mut self, mut tables: Vec<(Vec<u8>, Table)>) -> Result<Summary> {
        tables.sort_unstable_by(|left, right| left.0.cmp(&right.0));
        let main = self.main_table(Flags::NONE, tables.iter().map(|(name, table)| (&name[..], *table)))?;
        self.seal(main)
    }

    /// Writes the main table. `tables` has the name and the record of each table in the order of the names.
    pub(crate) fn main_table<'n>(
        &mut self,
        flags: Flags,
        tables: impl Iterator<Item = (&'n [u8], Table)>,
    ) -> Result<Table> {
        let mut main = TreeWriter::new(flags, self.layout);
        for (name, table) in tables {
            let name = self.layout.stored_name(name);
            main.put_node(self, &name, &table.encode(), node::SUBDATA)?;
        }
        main.finish(self)
    }

    /// Writes both meta pages, and syncs the file.
    pub(crate) fn seal(mut self, main: Table) -> Result<Summary> {
        self.put_metas(main)?;
        let bytes = self.pages * self.layout.page_size as u64;
        self.output.finish(&self.late)?;
        Ok(Summary { pages: self.pages, bytes })
    }

    /// Finishes the output and returns both meta pages.
    pub(crate) fn end(mut self, main: Table) -> Result<Vec<u8>> {
        self.put_metas(main)?;
        self.output.finish(&[])?;
        Ok(self.late.into_iter().flat_map(|(_, page)| page).collect())
    }

    /// Syncs all pages, calls `before`, then writes and syncs one meta page. Transaction N writes meta page N % 2.
    pub(crate) fn switch(self, meta: &Meta, before: &mut dyn FnMut()) -> Result<Summary> {
        let (number, size) = (meta.txn % META_PAGES, self.layout.page_size as u64);
        let page = self.layout.meta_page(number, meta);
        self.output.switch(&self.late, &(number * size, page), before)?;
        Ok(Summary { pages: self.pages, bytes: self.pages * size })
    }

    /// Writes the table of free pages for a file without free pages.
    ///
    /// LMDB 1.0 looks for free pages while it saves the first list of free pages. If that list goes to overflow pages
    /// and the table was empty, LMDB mistakes a root without keys for a record and refuses the commit
    /// (`mdb_page_alloc`), unless the transaction is the second of the file. So the table of a later transaction gets a
    /// record with an empty list.
    #[allow(clippy::cast_possible_truncation, reason = "a page has at most 65536 bytes")]
    fn free_table(&mut self) -> Result<Table> {
        let mut free = TreeWriter::new(Flags::INTEGERKEY, self.layout);
        if self.layout.format() == Format::V3 && self.txn > 1 {
            free.put(self, &self.txn.to_ne_bytes(), &0_u64.to_ne_bytes())?;
        }
        Ok(Table { pad: self.layout.page_size as u32, ..free.finish(self)? })
    }

    /// Adds both meta pages with the same content, so that LMDB can start from either. Transaction N writes meta page
    /// N % 2.
    fn put_metas(&mut self, main: Table) -> Result<()> {
        let free = self.free_table()?;
        for number in 0..META_PAGES {
            let txn = self.txn.saturating_sub(u64::from(self.txn % 2 != number));
            let last_page = self.pages - 1;
            let meta = Meta { map_size: self.map_size, free, main, last_page, txn };
            let page = self.layout.meta_page(number, &meta);
            self.replace(number, page);
        }
        Ok(())
    }
}

/// Mode of a new file, which the umask restricts.
pub(crate) const MODE: u32 = 0o666;

/// An offset, and the page to be written there.
type LatePage = (u64, Vec<u8>);

#[derive(Debug)]
enum End {
    Disk(DirectWriter),
    Pieces(PieceWriter),
}

impl End {
    fn fill(&mut self) -> &mut dyn Fill {
        match self {
            Self::Disk(stream) => stream,
            Self::Pieces(pieces) => pieces,
        }
    }
}

/// The destination of pages: a file or pieces.
#[derive(Debug)]
struct Output {
    end: End,
    path: PathBuf,
    /// The first error, which all later calls return, too.
    failure: Option<Error>,
}

impl Output {
    fn disk(path: &Path, stream: std::io::Result<DirectWriter>) -> Result<Self> {
        let stream = stream.map_err(|error| Error::from(error).of_file(path))?;
        Ok(Self { end: End::Disk(stream), path: path.to_path_buf(), failure: None })
    }

    /// Continues at `offset` of a file.
    fn seek(&mut self, offset: u64) -> Result<()> {
        let End::Disk(stream) = &mut self.end else {
            return Err(programming_error("pieces have no offsets"));
        };
        let sought = stream.seek(offset);
        sought.map_err(|error| fail(&mut self.failure, &self.path, error))
    }

    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.end.fill().write(bytes);
        written.map_err(|error| fail(&mut self.failure, &self.path, error))
    }

    pub fn zeros(&mut self, count: usize) -> Result<()> {
        let written = self.end.fill().zeros(count);
        written.map_err(|error| fail(&mut self.failure, &self.path, error))
    }

    /// Writes the remaining bytes. Writes the late pages and syncs if the output is a file; else the caller passes the
    /// late pages on.
    pub fn finish(mut self, late: &[LatePage]) -> Result<()> {
        let finished = match self.end {
            End::Disk(stream) => written(stream, late).map(drop),
            End::Pieces(pieces) => pieces.finish(),
        };
        finished.map_err(|error| fail(&mut self.failure, &self.path, error))
    }

    /// Syncs all other pages, calls `before`, then writes and syncs the meta page that commits them.
    pub fn switch(mut self, late: &[LatePage], meta: &LatePage, before: &mut dyn FnMut()) -> Result<()> {
        let End::Disk(stream) = self.end else {
            return Err(programming_error("pieces have no meta page to be switched"));
        };
        let switch = || {
            let mut file = written(stream, late)?;
            killpoint("index.synced");
            before();
            file.write_at(&Buffer::from(&meta.1[..]), meta.0)?;
            killpoint("index.switched");
            file.sync()
        };
        switch().map_err(|error| fail(&mut self.failure, &self.path, error))
    }
}

/// Writes the late pages, syncs the file and returns it.
fn written(stream: DirectWriter, late: &[LatePage]) -> std::io::Result<DirectFile> {
    let mut file = stream.finish()?;
    for (offset, page) in late {
        file.write_at(&Buffer::from(&page[..]), *offset)?;
    }
    file.sync()?;
    Ok(file)
}

/// Returns the first error of an output, which is `error` unless `failure` has an earlier error.
fn fail(failure: &mut Option<Error>, path: &Path, error: std::io::Error) -> Error {
    failure.get_or_insert_with(|| Error::from(error).of_file(path)).clone()
}
