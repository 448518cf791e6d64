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
    let shared = Shared {
        task,
        counters,
        sum,
        turns: Turns::new(usize::try_from(turns).unwrap_or(usize::MAX)),
        out: Turn::new(Out { sink, checksum: Checksum::default() }),
    };
    let stop = || {
        shared.turns.stop();
        shared.out.abandon();
    };
    side_by_side(0..threads(task), &stop, |_| shared.work())?;
    Ok(shared.out.into_inner().checksum)
}

struct Shared<'a, 's> {
    task: &'a Task<'a>,
    counters: &'a Counters,
    sum: bool,
    turns: Turns,
    out: Turn<Out<'s>>,
}

/// What is written, in the order of the turns.
struct Out<'s> {
    sink: Sink<'s>,
    checksum: Checksum,
}

impl Shared<'_, '_> {
    fn work(&self) -> Result<()> {
        let mut worker = Worker {
            make: self.task.items.maker(),
            printer: Fingerprinter::default(),
            made: Buffer::default(),
        };
        self.turns.iter().try_for_each(|turn| self.turn(turn as u64, &mut worker))
    }

    fn turn(&self, turn: u64, worker: &mut Worker<'_>) -> Result<()> {
        let start = self.task.first + turn * TURN;
        for number in start..self.task.end.min(start + TURN) {
            worker.make(number, self.sum)?;
            if worker.made.bytes.len() >= FULL {
                self.hand_on(turn, &mut worker.made)?;
            }
        }
        self.hand_on(turn, &mut worker.made)?;
        Ok(self.out.pass(turn)?)
    }

    /// Writes what is made, once it is this turn's turn.
    fn hand_on(&self, turn: u64, made: &mut Buffer) -> Result<()> {
        self.out.with(turn, |out| {
            out.checksum.join(mem::take(&mut made.checksum));
            self.counters.check().and_then(|()| (out.sink)(&made.bytes))
        })??;
        self.counters.add(made.entries, made.bytes.len() as u64);
        made.bytes.clear();
        made.entries = 0;
        Ok(())
    }
}

struct Worker<'t> {
    make: MakeItem<'t>,
    printer: Fingerprinter,
    made: Buffer,
}

/// What a thread has made and not yet handed on.
#[derive(Default)]
struct Buffer {
    bytes: Vec<u8>,
    entries: u64,
    checksum: Checksum,
}

impl Worker<'_> {
    fn make(&mut self, number: u64, sum: bool) -> Result<()> {
        let start = self.made.bytes.len();
        (self.make)(number, &mut self.made.bytes)?;
        self.made.entries += 1;
        if sum {
            // Without the empty line behind it.
            let bytes = &self.made.bytes[start..self.made.bytes.len() - 1];
            let record = Record { bytes, line: 1, closed: true, last: false };
            self.made.checksum.add(self.printer.print(&record)?.combined());
        }
        Ok(())
    }
}
