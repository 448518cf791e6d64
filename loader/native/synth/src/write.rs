//! Ranges of entries, or whatever else is made by its number, into descriptors and files. Several threads make them; what comes out does not depend on how many.

use std::fmt::Debug;
use std::mem;
use std::os::fd::OwnedFd;
use std::path::Path;

use common::{Code, Counters, Error, Result};
use ldif::{Output, Record, StreamWriter};
use tree::Shard;
use tree::fingerprint::{Checksum, Fingerprinter};
use workers::{Turn, Turns, side_by_side};

use crate::maker::Maker;
use crate::tree::Tree;

/// Entries that a thread takes at once.
const TURN: u64 = 512;
/// Bytes that are handed on although the turn's entries are not all made: large entries must not fill the memory.
const FULL: usize = 1 << 20;

/// What is made by its number.
pub trait Items: Sync + Debug {
    fn count(&self) -> u64;

    /// Appends the item of a number, which is less than the count; one maker for each thread.
    fn maker(&self) -> MakeItem<'_>;
}

pub type MakeItem<'i> = Box<dyn FnMut(u64, &mut Vec<u8>) -> Result<()> + 'i>;

impl Items for Tree {
    fn count(&self) -> u64 {
        self.entries()
    }

    fn maker(&self) -> MakeItem<'_> {
        let mut maker = Maker::new(self);
        Box::new(move |number, out| {
            maker.entry(number, out);
            Ok(())
        })
    }
}

/// Items `first` to `end`-1, made by so many threads.
#[derive(Debug, Clone, Copy)]
pub struct Task<'a> {
    pub items: &'a dyn Items,
    pub first: u64,
    pub end: u64,
    pub jobs: usize,
}

/// Into a descriptor, whatever it is; packed by zstd if wanted.
pub fn to_descriptor(
    task: &Task<'_>,
    fd: OwnedFd,
    compress: bool,
    counters: &Counters,
) -> Result<()> {
    let mut out = StreamWriter::new(fd, compress.then(|| threads(task)), counters)?;
    run(task, counters, false, &mut |bytes| out.write(bytes))?;
    out.finish()
}

/// Records into a file of its own, compressed when its name ends so; on the disk when it returns.
pub fn to_file(task: &Task<'_>, path: &Path, counters: &Counters) -> Result<Shard> {
    let mut output = Output::create(path, threads(task))?;
    let mut bytes = 0;
    let mut write = |piece: &[u8]| {
        bytes += piece.len() as u64;
        output.write(piece)
    };
    let checksum = run(task, counters, true, &mut write)?;
    output.finish()?;
    Ok(Shard { entries: task.end.saturating_sub(task.first), bytes, checksum: checksum.hex() })
}

/// More than any machine has use for is a slip.
fn threads(task: &Task<'_>) -> u32 {
    u32::try_from(task.jobs.clamp(1, 200)).unwrap_or(1)
}

type Sink<'s> = &'s mut (dyn FnMut(&[u8]) -> Result<()> + Send);

fn run(task: &Task<'_>, counters: &Counters, sum: bool, sink: Sink<'_>) -> Result<Checksum> {
    if task.first > task.end || task.end > task.items.count() {
        let all = task.items.count();
        let message = format!("{}:{} of {all}", task.first, task.end);
        return Err(Error::new(Code::Empty, message));
    }
    let turns = (task.end - task.first).div_ceil(TURN);
    let turns = Turns::new(usize::try_from(turns).unwrap_or(usize::MAX));
    // What is written, in the order of the turns.
    let out = Turn::new((sink, Checksum::default()));
    let work = |_| {
        let (mut make, mut printer) = (task.items.maker(), Fingerprinter::default());
        let (mut bytes, mut entries, mut checksum) = (Vec::new(), 0, Checksum::default());
        for turn in turns.iter() {
            let turn = turn as u64;
            let start = task.first + turn * TURN;
            let end = task.end.min(start + TURN);
            for number in start..end {
                let begin = bytes.len();
                make(number, &mut bytes)?;
                entries += 1;
                if sum {
                    // Without the empty line behind it.
                    let bytes = &bytes[begin..bytes.len() - 1];
                    let record = Record { bytes, line: 1, closed: true, last: false };
                    checksum.add(printer.print(&record)?.combined());
                }
                if bytes.len() >= FULL || number + 1 == end {
                    out.with(turn, |(sink, whole)| {
                        whole.join(mem::take(&mut checksum));
                        counters.check().and_then(|()| sink(&bytes))
                    })??;
                    counters.add(mem::take(&mut entries), bytes.len() as u64);
                    bytes.clear();
                }
            }
            out.pass(turn)?;
        }
        Ok::<_, Error>(())
    };
    let stop = || {
        turns.stop();
        out.abandon();
    };
    side_by_side(0..threads(task), &stop, work)?;
    Ok(out.into_inner().1)
}
