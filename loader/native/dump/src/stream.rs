//! Writes a database as one stream of LDIF. The workers convert ranges in parallel and write them in the order of IDs.

use std::os::fd::OwnedFd;
use std::path::Path;

use common::{Code, Counters};
use ldif::StreamWriter;
use tree::Names;
use tree::fingerprint::{Checksum, Fingerprinter};
use workers::Turn;

use crate::entry::Entry;
use crate::export::{ExportHead, Exported};
use crate::shard::HeldBackEntries;
use crate::tables::{Tables, open};
use crate::walk::{Plan, Worker};
use crate::{Result, Source};

/// The size of the pages of one range, in bytes.
const PIECE: u64 = 2 << 20;
const MOST: usize = 100_000;
/// The size of the LDIF that a worker buffers before it waits for its turn to write, in bytes.
const BUFFER_BYTES: usize = 4 << 20;
/// The highest number of zstd threads.
const THREADS: usize = 200;

/// Writes all entries of `source` to `fd`, optionally compressed with zstd: the same records in the same order as
/// [`export`](crate::export()). `scratch` is the directory of a temporary file for the entries that are held back,
/// which is used if they exceed the memory limit.
pub fn stream(
    source: &Source<'_>,
    fd: OwnedFd,
    compress: bool,
    scratch: &Path,
    counters: &Counters,
) -> Result<Exported> {
    #[allow(clippy::cast_possible_truncation, reason = "a few at most")]
    let threads = compress.then(|| source.jobs.clamp(1, THREADS) as u32);
    let mut out = StreamWriter::new(fd, threads, counters)?;
    let written = write(source, &mut out, &HeldBackEntries::new(scratch, counters), counters);
    match written {
        Ok(done) => out.finish().map(|()| done),
        Err(error) => {
            if error.code != Code::Pipe {
                out.give_up();
            }
            Err(error)
        }
    }
}

fn write(
    source: &Source<'_>,
    out: &mut StreamWriter<'_>,
    late: &HeldBackEntries,
    counters: &Counters,
) -> Result<Exported> {
    let snapshot = open(source.path, source.txn)?;
    let root = ExportHead::find(&Tables::of(&snapshot)?, source)?;
    let (jobs, base, ignore) = (source.jobs, root.id, &Names::default());
    let plan = Plan { jobs, base, ignore, piece: PIECE, most: MOST, counters };
    let turn = Turn::new(StreamOutput { out, done: Done::default() });
    let met = plan.run(&snapshot, || StreamWorker::new(&turn, late), || turn.abandon())?;
    let StreamOutput { out, mut done } = turn.into_inner();
    let late = late.each(|_, text| {
        done.bytes += text.len() as u64;
        out.write(text)
    })?;
    let Done { checksum, bytes } = done;
    Ok(Exported { late, bytes, checksum: checksum.hex(), ..root.exported(met) })
}

/// The output, which the workers use in the order of the ranges.
struct StreamOutput<'l, 'o> {
    out: &'l mut StreamWriter<'o>,
    done: Done,
}

#[derive(Debug, Default, Clone, Copy)]
struct Done {
    checksum: Checksum,
    bytes: u64,
}

/// The state of one worker.
struct StreamWorker<'t, 'l, 'o> {
    turn: &'t Turn<StreamOutput<'l, 'o>>,
    late: &'t HeldBackEntries,
    range: u64,
    text: Vec<u8>,
    printer: Fingerprinter,
    done: Done,
}

impl<'t, 'l, 'o> StreamWorker<'t, 'l, 'o> {
    fn new(turn: &'t Turn<StreamOutput<'l, 'o>>, late: &'t HeldBackEntries) -> Self {
        let (text, printer) =
            (Vec::with_capacity(BUFFER_BYTES + (BUFFER_BYTES >> 4)), Fingerprinter::default());
        Self { turn, late, range: 0, text, printer, done: Done::default() }
    }

    fn hand_on(&mut self) -> Result<()> {
        self.turn.with(self.range, |output| output.out.write(&self.text))??;
        self.done.bytes += self.text.len() as u64;
        self.text.clear();
        Ok(())
    }
}

impl Worker for StreamWorker<'_, '_, '_> {
    fn begin(&mut self, range: usize) -> Result<()> {
        self.range = range as u64;
        Ok(())
    }

    fn entry(&mut self, entry: &Entry<'_>) -> Result<u64> {
        let start = self.text.len();
        let print = entry.record(&mut self.text, &mut self.printer)?;
        self.done.checksum.add(print);
        let length = (self.text.len() - start) as u64;
        if entry.place.late {
            self.late.push(entry.id, entry.place, print, &self.text[start..])?;
            self.text.truncate(start);
        } else if self.text.len() >= BUFFER_BYTES {
            self.hand_on()?;
        }
        Ok(length)
    }

    fn end(&mut self) -> Result<()> {
        self.hand_on()?;
        let done = std::mem::take(&mut self.done);
        self.turn.with(self.range, |output| {
            output.done.bytes += done.bytes;
            output.done.checksum.join(done.checksum);
        })?;
        Ok(self.turn.pass(self.range)?)
    }
}
