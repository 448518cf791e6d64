//! Reading: inputs in their order, cut into chunks of whole records that workers take in turn.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Mutex;

use ldif::blocks::{Block, Blocks, MAX_RECORD};
use ldif::{Counters, Input};

use crate::{Error, Result};

/// One file, or a stream.
#[derive(Debug)]
pub enum Source {
    Path(PathBuf),
    Stream(OwnedFd),
}

/// Whole records with their place in the inputs.
#[derive(Debug)]
pub struct Chunk {
    /// Number of the chunk, from 0, over all inputs.
    pub number: u64,
    pub path: Option<PathBuf>,
    pub bytes: Vec<u8>,
    /// Of its first line, from 1.
    pub line: u64,
    /// The end of its input.
    pub last: bool,
}

impl Chunk {
    pub fn block(&self) -> Block<'_> {
        Block { bytes: &self.bytes, line: self.line, last: self.last }
    }
}

/// Hands out the chunks of all inputs; workers share it.
#[derive(Debug)]
pub struct Chunks<'a> {
    state: Mutex<State<'a>>,
    counters: &'a Counters,
}

#[derive(Debug)]
struct State<'a> {
    waiting: std::vec::IntoIter<Source>,
    open: Option<(Option<PathBuf>, Blocks<Input<'a>>)>,
    next: u64,
    stopped: bool,
}

impl<'a> Chunks<'a> {
    pub fn new(sources: Vec<Source>, counters: &'a Counters) -> Self {
        let state = State { waiting: sources.into_iter(), open: None, next: 0, stopped: false };
        Self { state: Mutex::new(state), counters }
    }

    /// Hands out no more.
    pub fn stop(&self) {
        crate::lock(&self.state).stopped = true;
    }

    /// The next chunk, copied into a buffer that was used before; `None` at the end of all inputs.
    pub fn next(&self, mut buffer: Vec<u8>) -> Result<Option<Chunk>> {
        let mut state = crate::lock(&self.state);
        loop {
            self.counters.check()?;
            if state.stopped {
                return Ok(None);
            }
            let Some((path, blocks)) = &mut state.open else {
                match state.waiting.next() {
                    None => return Ok(None),
                    Some(source) => state.open = Some(open(source, self.counters)?),
                }
                continue;
            };
            let named = |error: Error| error.in_file(path.as_deref());
            let block = blocks.next_block().map_err(|error| named(self.counters.explain(error)))?;
            if let Some(block) = block {
                buffer.clear();
                buffer.extend_from_slice(block.bytes);
                let (line, last, path) = (block.line, block.last, path.clone());
                let number = state.next;
                state.next += 1;
                return Ok(Some(Chunk { number, path, bytes: buffer, line, last }));
            }
            state.open = None;
        }
    }
}

type Opened<'a> = (Option<PathBuf>, Blocks<Input<'a>>);

fn open(source: Source, counters: &Counters) -> Result<Opened<'_>> {
    let input = match source {
        Source::Path(path) => Input::from_path(&path)?,
        Source::Stream(stream) => Input::from_fd(stream, counters)?,
    };
    let (path, block_size) = (input.path.clone(), input.block_size);
    Ok((path, Blocks::with_sizes(input, block_size, MAX_RECORD)))
}
