//! Reads the inputs in order and cuts them into chunks of complete records for the workers.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use common::InFile;
use ldif::blocks::{Block, Blocks, MAX_RECORD};
use ldif::records::Records;
use ldif::{Counters, Feed, Include, Input, url};

use crate::{Code, Error, Result};

/// Maximum depth of included files. An input that includes more deeply is wrong or hostile, and is refused.
const DEEPEST: usize = 16;
/// Maximum number of included files. An input that includes more files is wrong or hostile, and is refused.
const MOST_INCLUDED: u64 = 10_000;

/// A file, a stream, or blocks that another thread reads.
#[derive(Debug)]
pub enum Source {
    Path(PathBuf),
    Stream(OwnedFd),
    Feed(Arc<Feed>),
}

/// Complete records, and where they come from.
#[derive(Debug)]
pub struct Chunk {
    /// Number of the chunk, from 0, over all inputs.
    pub number: u64,
    pub path: Option<PathBuf>,
    pub bytes: Vec<u8>,
    /// Number of the chunk's first line, from 1.
    pub line: u64,
    /// The input ends with this chunk.
    pub last: bool,
}

impl Chunk {
    pub fn block(&self) -> Block<'_> {
        Block { bytes: &self.bytes, line: self.line, last: self.last }
    }
}

/// Hands out the chunks of all inputs. All workers share it.
pub struct Chunks<'a> {
    state: Mutex<State<'a>>,
    counters: &'a Counters,
}

#[derive(Debug)]
struct State<'a> {
    waiting: std::vec::IntoIter<Source>,
    /// Open files, each included by the previous file. The last file is the current input.
    open: Vec<Open<'a>>,
    /// The current input, if it is a feed.
    feed: Option<Arc<Feed>>,
    /// A feed reported that entries may have come more than once.
    repeated: bool,
    /// Files named by `include:` lines are read.
    includes: bool,
    /// Number of included files.
    included: u64,
    /// Number of the next chunk.
    next: u64,
    stopped: bool,
}

#[derive(Debug)]
struct Open<'a> {
    path: Option<PathBuf>,
    blocks: Blocks<Input<'a>>,
    /// The `include:` line at which reading this file was interrupted.
    include: Option<Include>,
}

impl<'a> Chunks<'a> {
    /// With `includes`, a file named by an `include:` line is read in place of that line.
    pub fn new(sources: Vec<Source>, includes: bool, counters: &'a Counters) -> Self {
        let state = State {
            waiting: sources.into_iter(),
            open: Vec::new(),
            feed: None,
            repeated: false,
            includes,
            included: 0,
            next: 0,
            stopped: false,
        };
        Self { state: Mutex::new(state), counters }
    }

    /// Returns true if a feed reported that entries may have come more than once.
    pub fn repeated(&self) -> bool {
        crate::lock(&self.state).repeated
    }

    /// Adds inputs. Call it only after all chunks of the previous inputs were handed out.
    pub fn add(&self, sources: Vec<Source>) {
        crate::lock(&self.state).waiting = sources.into_iter();
    }

    /// Makes [`Self::next`] return no more chunks.
    pub fn stop(&self) {
        crate::lock(&self.state).stopped = true;
    }

    /// Returns the next chunk, or `None` at the end of all inputs. The memory of `buffer` is reused.
    pub fn next(&self, mut buffer: Vec<u8>) -> Result<Option<Chunk>> {
        let mut state = crate::lock(&self.state);
        loop {
            self.counters.check()?;
            let is_idle = state.open.is_empty() && state.feed.is_none();
            if state.stopped || is_idle && !state.open_next(self.counters)? {
                return Ok(None);
            }
            if let Some(feed) = &state.feed {
                if let Some(bytes) = feed.take(std::mem::take(&mut buffer), self.counters)? {
                    return Ok(Some(state.fed(bytes)));
                }
                state.repeated |= feed.is_repeated();
                state.feed = None;
                continue;
            }
            state.follow(self.counters)?;
            if let Some(chunk) = state.chunk(&mut buffer)? {
                return Ok(Some(chunk));
            }
        }
    }
}

impl<'a> State<'a> {
    /// Returns a block of the feed as a chunk that never ends an input: the readers of the feed detect truncation.
    fn fed(&mut self, bytes: Vec<u8>) -> Chunk {
        let number = self.next;
        self.next += 1;
        Chunk { number, path: None, bytes, line: 1, last: false }
    }

    /// Opens the next input; returns false if there is none.
    fn open_next(&mut self, counters: &'a Counters) -> Result<bool> {
        let input = match self.waiting.next() {
            None => return Ok(false),
            Some(Source::Feed(feed)) => {
                self.feed = Some(feed);
                return Ok(true);
            }
            Some(Source::Path(path)) => Input::from_path(&path, counters)?,
            Some(Source::Stream(stream)) => Input::from_fd(stream, counters)?,
        };
        self.open.push(Open::new(input));
        Ok(true)
    }

    /// Opens the included file if reading was interrupted at an `include:` line.
    fn follow(&mut self, counters: &'a Counters) -> Result<()> {
        let Some(top) = self.open.last_mut() else { return Ok(()) };
        let Some(include) = top.include.take() else { return Ok(()) };
        self.included += 1;
        let at_include = |error: Error| Error { line: None, path: None, ..error }.at(include.line);
        let path = top.path.clone();
        let opened = if self.open.len() > DEEPEST || self.included > MOST_INCLUDED {
            let message = format!("include: {}: too many files, one in another", include.url);
            Err(Error::new(Code::Include, message))
        } else {
            url::open_included(&include.url, counters)
        };
        let input = opened.map_err(|error| at_include(error).in_file(path.as_deref()))?;
        self.open.push(Open::new(input));
        Ok(())
    }

    /// Returns the next chunk of the current input, or `None` at its end.
    fn chunk(&mut self, buffer: &mut Vec<u8>) -> Result<Option<Chunk>> {
        let is_included = self.open.len() > 1;
        let Some(top) = self.open.last_mut() else { return Ok(None) };
        let Some(block) = top.blocks.next_block().in_file(top.path.as_deref())? else {
            self.open.pop();
            return Ok(None);
        };
        top.include = if self.includes { Records::find_include(&block) } else { None };
        let end = block.bytes.len();
        let span = top.include.as_ref().map_or(end..end, |include| include.span.clone());
        // The end of an included file does not end the input: the lines after `include:` show whether it was complete.
        let (line, last) = (block.line, block.last && !is_included && top.include.is_none());
        let bytes = top.blocks.take(span.start, span.end, std::mem::take(buffer));
        let (number, path) = (self.next, top.path.clone());
        self.next += 1;
        Ok(Some(Chunk { number, path, bytes, line, last }))
    }
}

impl<'a> Open<'a> {
    fn new(input: Input<'a>) -> Self {
        let (path, block_size) = (input.path.clone(), input.block_size);
        let blocks = Blocks::with_sizes(input, block_size, MAX_RECORD);
        Self { path, blocks, include: None }
    }
}
