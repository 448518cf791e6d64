//! A search whose entries go on at once to whoever takes blocks of LDIF.

use std::path::Path;

use common::Counters;
use ldif::{Feed, Output};
use tree::Names;

use crate::message::Entry;
use crate::record::Recorder;
use crate::{Channel, Result, Search, search};

/// LDIF of a block: as much as a reader of files gives at once.
const BLOCK: usize = ldif::blocks::BLOCK_SIZE;

/// Records that are counted together.
const TOGETHER: u64 = 32;

/// Threads that compress a copy.
const COMPRESSING: u32 = 1;

/// Where else the entries of a search go.
#[derive(Debug, Clone, Copy)]
pub struct FeedFiles<'a> {
    /// Gets the [notes](Recorder::note) of containers.
    pub notes: &'a Path,
    /// Gets all records.
    pub copy: Option<&'a Path>,
}

/// Everything that `asked` finds goes to `feed`, without the attributes `drop`. How many entries these were; the files
/// besides are on the disk then.
pub fn feed(
    channel: &mut Channel,
    asked: &Search,
    feed: &Feed,
    besides: FeedFiles<'_>,
    drop: Names,
    counters: &Counters,
) -> Result<u64> {
    let mut feeder = Feeder::new(feed, besides, drop, counters)?;
    search(channel, asked, |entry| feeder.entry(entry))?;
    Ok(feeder.finish()?)
}

struct Feeder<'a> {
    feed: &'a Feed,
    counters: &'a Counters,
    recorder: Recorder,
    notes: Output,
    copy: Option<Output>,
    /// Records that wait until there is a block of them, and notes.
    block: Vec<u8>,
    noted: Vec<u8>,
    /// Bytes of the block, and entries, that are counted already.
    counted: usize,
    waiting: u64,
    entries: u64,
}

impl<'a> Feeder<'a> {
    fn new(
        feed: &'a Feed,
        besides: FeedFiles<'_>,
        drop: Names,
        counters: &'a Counters,
    ) -> common::Result<Self> {
        Ok(Self {
            feed,
            counters,
            recorder: Recorder::new(drop),
            notes: Output::create(besides.notes, 0)?,
            copy: besides.copy.map(|path| Output::create(path, COMPRESSING)).transpose()?,
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
        if self.waiting >= TOGETHER || self.counters.is_limited() {
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
