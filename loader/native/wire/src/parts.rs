//! Writes the entries of a search as LDIF: into files of some tens of megabytes with a file of rows for each, into a
//! single file, or as blocks to a consumer.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use common::{Counters, InFile};
use ldif::{Closing, Feed, Output};
use tree::{Names, row};

use crate::message::Entry;
use crate::record::Recorder;
use crate::{Channel, Result, Search, search};

/// LDIF bytes of a file before compression. The first files are smaller, each twice the previous one: they have most of
/// the containers, and arranging the entries rewrites every file with a container.
const PIECE: u64 = 64 << 20;
const FIRST_PIECE: u64 = 2 << 20;

/// Number of records that are counted and written together, which costs less than one by one.
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

impl OutputFiles {
    fn inner(&self) -> PathBuf {
        self.directory.join(format!("{}.inner", self.name))
    }
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
    let mut writer = Writer::new(target, drop)?;
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
    /// The rows and LDIF files of the previous piece while they are synced.
    before: Option<[Closing; 2]>,
    inner: Output,
    /// Records not yet passed to [`Writer::flush`], with their rows and notes.
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

impl<'a> Writer<'a> {
    fn new(target: &'a OutputFiles, drop: Names) -> common::Result<Self> {
        remove_old(target)?;
        let (recorder, done) = (Recorder::new(drop), SearchOutput::default());
        let inner = Output::create(&target.inner(), 0)?;
        Ok(Self {
            target,
            recorder,
            piece: None,
            before: None,
            inner,
            text: Vec::new(),
            rows: Vec::new(),
            notes: Vec::new(),
            waiting: 0,
            done,
        })
    }

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
        let mut piece = match self.piece.take() {
            Some(piece) => piece,
            None => self.begin()?,
        };
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
        let ended = piece.end()?;
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
        self.wait()?;
        self.before = self.piece.take().map(Piece::end).transpose()?;
        self.wait()?;
        self.inner.finish()?;
        let directory = &self.target.directory;
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.in_file(Some(directory))?;
        Ok(self.done)
    }
}

impl Piece {
    fn end(self) -> common::Result<[Closing; 2]> {
        Ok([self.rows.end()?, self.ldif.end()?])
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
    let number = file.and_then(|file| file.strip_prefix(name)?.strip_prefix('-')?.split_once('.'));
    number.is_some_and(|(number, _)| number.bytes().all(|digit| digit.is_ascii_digit()))
}

/// LDIF bytes of a block, as in blocks read from files.
const BLOCK: usize = ldif::blocks::BLOCK_SIZE;

/// Files that receive data of the search besides the feed.
#[derive(Debug, Clone, Copy)]
pub struct FeedFiles<'a> {
    /// Receives the [notes](Recorder::note) of containers.
    pub notes: &'a Path,
    /// Receives all records.
    pub copy: Option<&'a Path>,
}

/// Sends the entries that `query` finds to `feed`, without the attributes `drop`. Returns their number when `files` are
/// synced.
pub fn feed(
    channel: &mut Channel,
    query: &Search,
    feed: &Feed,
    files: FeedFiles<'_>,
    drop: Names,
    counters: &Counters,
) -> Result<u64> {
    let mut feeder = Feeder::new(feed, files, drop, counters)?;
    search(channel, query, |entry| feeder.entry(entry))?;
    Ok(feeder.finish()?)
}

struct Feeder<'a> {
    feed: &'a Feed,
    counters: &'a Counters,
    recorder: Recorder,
    notes: Output,
    copy: Option<Output>,
    /// Records of the incomplete block, and the notes.
    block: Vec<u8>,
    noted: Vec<u8>,
    /// Bytes of `block`, and entries, that are counted already.
    counted: usize,
    waiting: u64,
    entries: u64,
}

impl<'a> Feeder<'a> {
    fn new(feed: &'a Feed, files: FeedFiles<'_>, drop: Names, counters: &'a Counters) -> common::Result<Self> {
        Ok(Self {
            feed,
            counters,
            recorder: Recorder::new(drop),
            notes: Output::create(files.notes, 0)?,
            copy: files.copy.map(|path| Output::create(path, THREADS)).transpose()?,
            block: Vec::with_capacity(BLOCK + BLOCK / 8),
            noted: Vec::new(),
            counted: 0,
            waiting: 0,
            entries: 0,
        })
    }

    fn entry(&mut self, entry: &Entry<'_>) -> Result<()> {
        self.recorder.record(entry, &mut self.block)?;
        self.recorder.note(entry, &mut self.noted)?;
        self.waiting += 1;
        if self.waiting >= BATCH || self.counters.is_limited() {
            self.count();
            self.counters.pace();
        }
        if self.block.len() >= BLOCK { Ok(self.pass_on()?) } else { Ok(()) }
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
