//! Writes the entries of a search as LDIF: into files of some tens of megabytes, each with a file of rows (see
//! [`row`]); into a single file; or as blocks into a [`Feed`].

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use common::{Counters, InFile};
use ldif::blocks::BLOCK_SIZE;
use ldif::{Closing, Feed, Output};
use tree::{Names, row};

use crate::message::Entry;
use crate::record::Recorder;
use crate::{Channel, Result, Search, search};

/// A file ends at this many LDIF bytes, before compression. The first file ends at `FIRST_PIECE` bytes, the next at
/// twice as many, and so on: most containers come first, and arranging rewrites files with containers.
const PIECE: u64 = 64 << 20;
const FIRST_PIECE: u64 = 2 << 20;

/// Number of records that are counted and written together. Counting each record alone would cost more.
const BATCH: u64 = 32;

/// Number of threads that compress a file.
const THREADS: u32 = 1;

/// Output files named `directory/name-000.ldif`, `name-001.ldif`, and so on.
#[derive(Debug, Clone)]
pub struct OutputFiles {
    pub directory: PathBuf,
    pub name: String,
    /// Whether to compress the files and append `.zst` to their names.
    pub compress: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchOutput {
    pub entries: u64,
    /// Size of the LDIF before compression, in bytes.
    pub bytes: u64,
    /// The files in order; empty if there are no entries.
    pub files: Vec<PathBuf>,
    /// XXH3 checksum (128 bits) of each file, in hexadecimal.
    pub sums: Vec<String>,
}

/// Writes the entries that `query` finds, without the attributes `drop`, and syncs the files. Removes files that an
/// earlier attempt left. `directory/name.inner` gets the [notes](Recorder::note) of containers.
pub fn part(
    channel: &mut Channel,
    query: &Search,
    target: &OutputFiles,
    drop: Names,
    counters: &Counters,
) -> Result<SearchOutput> {
    remove_old(target)?;
    let mut writer = Writer {
        target,
        recorder: Recorder::new(drop),
        piece: None,
        before: None,
        inner: Output::create(&target.directory.join(format!("{}.inner", target.name)), 0)?,
        text: Vec::new(),
        rows: Vec::new(),
        notes: Vec::new(),
        waiting: 0,
        done: SearchOutput::default(),
    };
    search(channel, query, |entry| writer.entry(entry, counters))?;
    writer.flush(counters)?;
    Ok(writer.finish()?)
}

/// Writes the entries into one file, without a file of rows.
pub fn file(
    channel: &mut Channel,
    query: &Search,
    path: &Path,
    drop: Names,
    counters: &Counters,
) -> Result<SearchOutput> {
    let mut output = Output::create(path, THREADS)?;
    let (mut recorder, mut text) = (Recorder::new(drop), Vec::new());
    let mut done = SearchOutput { files: vec![path.to_path_buf()], ..SearchOutput::default() };
    search(channel, query, |entry| {
        text.clear();
        recorder.record(entry, &mut text)?;
        let bytes = text.len() as u64;
        done.entries += 1;
        done.bytes += bytes;
        counters.add(1, bytes);
        Ok(output.write(&text)?)
    })?;
    output.finish()?;
    Ok(done)
}

#[derive(Debug)]
struct Writer<'a> {
    target: &'a OutputFiles,
    recorder: Recorder,
    piece: Option<Piece>,
    /// The previous piece's file of rows and LDIF file, while they are synced.
    before: Option<[Closing; 2]>,
    inner: Output,
    /// Records that are not yet written, with their rows and notes.
    text: Vec<u8>,
    rows: Vec<u8>,
    notes: Vec<u8>,
    waiting: u64,
    done: SearchOutput,
}

/// An LDIF file and the file of its rows.
#[derive(Debug)]
struct Piece {
    ldif: Output,
    rows: Output,
    bytes: u64,
}

impl Writer<'_> {
    fn entry(&mut self, entry: &Entry<'_>, counters: &Counters) -> Result<()> {
        let row = self.recorder.record_with_row(entry, &mut self.text)?;
        self.recorder.note(entry, &mut self.notes)?;
        self.rows.extend_from_slice(&row.to_bytes());
        self.waiting += 1;
        if self.waiting < BATCH && !counters.is_limited() {
            return Ok(());
        }
        self.flush(counters)?;
        counters.pace();
        Ok(())
    }

    fn flush(&mut self, counters: &Counters) -> common::Result<()> {
        if self.waiting == 0 {
            return Ok(());
        }
        let mut piece = self.piece.take().map_or_else(|| self.begin(), Ok)?;
        piece.ldif.write(&self.text)?;
        piece.rows.write(&self.rows)?;
        self.inner.write(&self.notes)?;
        let (entries, bytes) = (std::mem::take(&mut self.waiting), self.text.len() as u64);
        self.text.clear();
        self.rows.clear();
        self.notes.clear();
        piece.bytes += bytes;
        self.done.entries += entries;
        self.done.bytes += bytes;
        counters.add(entries, bytes);
        if piece.bytes < (FIRST_PIECE << (self.done.files.len() - 1).min(5)).min(PIECE) {
            self.piece = Some(piece);
            return Ok(());
        }
        self.end(piece)
    }

    /// Ends a piece, and waits until the piece before it is on the disk.
    fn end(&mut self, piece: Piece) -> common::Result<()> {
        let ended = [piece.rows.end()?, piece.ldif.end()?];
        self.wait()?;
        self.before = Some(ended);
        Ok(())
    }

    /// Waits until the previous piece is on the disk.
    fn wait(&mut self) -> common::Result<()> {
        let Some([rows, ldif]) = self.before.take() else { return Ok(()) };
        rows.wait()?;
        self.done.sums.push(ldif.wait()?);
        Ok(())
    }

    fn begin(&mut self) -> common::Result<Piece> {
        let suffix = if self.target.compress { "ldif.zst" } else { "ldif" };
        let name = format!("{}-{:03}.{suffix}", self.target.name, self.done.files.len());
        let path = self.target.directory.join(name);
        let ldif = Output::create_summed(&path, THREADS)?;
        let rows = Output::create(&row::row_file_of(&path), 0)?;
        self.done.files.push(path);
        Ok(Piece { ldif, rows, bytes: 0 })
    }

    fn finish(mut self) -> common::Result<SearchOutput> {
        if let Some(piece) = self.piece.take() {
            self.end(piece)?;
        }
        self.wait()?;
        self.inner.finish()?;
        let directory = &self.target.directory;
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.in_file(Some(directory))?;
        Ok(self.done)
    }
}

/// Removes files of an earlier attempt, which may have written more files than this one.
fn remove_old(target: &OutputFiles) -> common::Result<()> {
    let remove = || -> std::io::Result<()> {
        for file in fs::read_dir(&target.directory)? {
            let path = file?.path();
            if is_ours(&path, &target.name) {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
    };
    remove().in_file(Some(&target.directory))
}

fn is_ours(path: &Path, name: &str) -> bool {
    let file = path.file_name().and_then(|file| file.to_str());
    let parts = file.and_then(|file| file.strip_prefix(name)?.strip_prefix('-')?.split_once('.'));
    parts.is_some_and(|(number, _)| number.bytes().all(|digit| digit.is_ascii_digit()))
}

/// Files that a search writes in addition to the feed.
#[derive(Debug, Clone, Copy)]
pub struct FeedFiles<'a> {
    /// Receives the [notes](Recorder::note) of containers.
    pub notes: &'a Path,
    /// Receives all records.
    pub copy: Option<&'a Path>,
}

/// Sends the entries that `query` finds to `feed`, without the attributes `drop`. Syncs `files`. Returns the number of
/// entries.
pub fn feed(
    channel: &mut Channel,
    query: &Search,
    feed: &Feed,
    files: FeedFiles<'_>,
    drop: Names,
    counters: &Counters,
) -> Result<u64> {
    let mut feeder = Feeder {
        feed,
        counters,
        recorder: Recorder::new(drop),
        notes: Output::create(files.notes, 0)?,
        copy: files.copy.map(|path| Output::create(path, THREADS)).transpose()?,
        block: Vec::with_capacity(BLOCK_SIZE + BLOCK_SIZE / 8),
        noted: Vec::new(),
        counted: 0,
        waiting: 0,
        entries: 0,
    };
    search(channel, query, |entry| feeder.entry(entry))?;
    Ok(feeder.finish()?)
}

struct Feeder<'a> {
    feed: &'a Feed,
    counters: &'a Counters,
    recorder: Recorder,
    notes: Output,
    copy: Option<Output>,
    /// Records of the incomplete block; `noted` has their notes.
    block: Vec<u8>,
    noted: Vec<u8>,
    /// Number of bytes of `block` that are counted already.
    counted: usize,
    /// Number of entries that are not counted yet.
    waiting: u64,
    entries: u64,
}

impl Feeder<'_> {
    fn entry(&mut self, entry: &Entry<'_>) -> Result<()> {
        self.recorder.record(entry, &mut self.block)?;
        self.recorder.note(entry, &mut self.noted)?;
        self.waiting += 1;
        if self.waiting >= BATCH || self.counters.is_limited() {
            self.count();
            self.counters.pace();
        }
        if self.block.len() >= BLOCK_SIZE { Ok(self.pass_on()?) } else { Ok(()) }
    }

    fn count(&mut self) {
        let bytes = self.block.len() - self.counted;
        self.counters.add(self.waiting, bytes as u64);
        self.entries += std::mem::take(&mut self.waiting);
        self.counted = self.block.len();
    }

    fn pass_on(&mut self) -> common::Result<()> {
        self.count();
        if let Some(copy) = &mut self.copy {
            copy.write(&self.block)?;
        }
        self.notes.write(&self.noted)?;
        self.noted.clear();
        self.block = self.feed.push(std::mem::take(&mut self.block), self.counters)?;
        self.counted = 0;
        Ok(())
    }

    fn finish(mut self) -> common::Result<u64> {
        if !self.block.is_empty() {
            self.pass_on()?;
        }
        self.notes.finish()?;
        self.copy.map(Output::finish).transpose()?;
        Ok(self.entries)
    }
}
