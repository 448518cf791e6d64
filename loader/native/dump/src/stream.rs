//! A database as one stream of LDIF: workers make ranges side by side, and hand them on in the order of IDs.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use ldif::{Code, Counters, Outflow};
use tree::Names;
use tree::fingerprint::{Checksum, Printer};

use crate::entry::Entry;
use crate::export::{Exported, Root};
use crate::late::Late;
use crate::tables::Snapshot;
use crate::workers::{Plan, Work, given_up};
use crate::{Result, Source, ranges};

/// Bytes of pages of one range.
const PIECE: u64 = 2 << 20;
const MOST: usize = 100_000;
/// Bytes of LDIF that a worker makes ahead of its turn.
const FULL: usize = 4 << 20;
/// More compress for nobody.
const THREADS: usize = 200;

/// Writes all entries of `source` to `fd`, parents first, packed by zstd if wanted: the records of
/// [`export`](crate::export()) in the same order. `scratch`: a directory for a nameless file, if many entries come late.
pub fn stream(
    source: &Source<'_>,
    fd: OwnedFd,
    compress: bool,
    scratch: &Path,
    counters: &Counters,
) -> Result<Exported> {
    #[allow(clippy::cast_possible_truncation, reason = "a few at most")]
    let threads = compress.then(|| source.jobs.clamp(1, THREADS) as u32);
    let mut out = Outflow::new(fd, threads, counters)?;
    let written = write(source, &mut out, &Late::new(scratch, counters), counters);
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
    out: &mut Outflow<'_>,
    late: &Late,
    counters: &Counters,
) -> Result<Exported> {
    let snapshot = Snapshot::open(source)?;
    let tables = snapshot.tables()?;
    let root = Root::find(&tables, source)?;
    let ranges = ranges::cut(&tables, PIECE, source.jobs, MOST)?;
    let plan = Plan {
        jobs: source.jobs,
        base: root.id,
        ignore: &Names::default(),
        ranges: &ranges,
        records: tables.id2e.record().entries,
        counters,
    };
    let line = Line { state: Mutex::default(), moved: Condvar::new(), out: Mutex::new(out) };
    let met = plan.carry_out(&snapshot, || Teller::new(&line, late))?;
    let mut done = line.lock().done;
    let out = line.out.into_inner().unwrap_or_else(PoisonError::into_inner);
    let late = late.each(|_, text| {
        done.bytes += text.len() as u64;
        out.write(text)
    })?;
    Ok(Exported {
        entries: met.entries,
        holes: met.holes,
        late,
        bytes: done.bytes,
        checksum: done.checksum.hex(),
        base: root.dn,
        context_csns: root.context_csns,
        ranges: ranges.len(),
        ..Exported::default()
    })
}

/// Where workers wait until what comes before theirs is written.
struct Line<'l, 'o> {
    state: Mutex<State>,
    moved: Condvar,
    /// Only for who has the turn.
    out: Mutex<&'l mut Outflow<'o>>,
}

#[derive(Debug, Default)]
struct State {
    /// The range that may be written.
    turn: usize,
    /// A worker ended before its time, so that the turn will not move on.
    failed: bool,
    done: Done,
}

#[derive(Debug, Default, Clone, Copy)]
struct Done {
    checksum: Checksum,
    bytes: u64,
}

impl Line<'_, '_> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the text of a range, which may not be all of it, once it is that one's turn.
    fn write(&self, range: usize, text: &[u8]) -> Result<()> {
        let mut state = self.lock();
        while state.turn != range && !state.failed {
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.failed {
            return Err(given_up());
        }
        drop(state);
        self.out.lock().unwrap_or_else(PoisonError::into_inner).write(text)
    }

    fn change(&self, how: impl FnOnce(&mut State)) {
        how(&mut self.lock());
        self.moved.notify_all();
    }
}

/// One worker's part.
struct Teller<'t, 'l, 'o> {
    line: &'t Line<'l, 'o>,
    late: &'t Late,
    range: usize,
    text: Vec<u8>,
    printer: Printer,
    done: Done,
    closed: bool,
}

impl<'t, 'l, 'o> Teller<'t, 'l, 'o> {
    fn new(line: &'t Line<'l, 'o>, late: &'t Late) -> Self {
        let (text, printer) = (Vec::with_capacity(FULL + (FULL >> 4)), Printer::default());
        Self { line, late, range: 0, text, printer, done: Done::default(), closed: false }
    }

    fn hand_on(&mut self) -> Result<()> {
        self.line.write(self.range, &self.text)?;
        self.done.bytes += self.text.len() as u64;
        self.text.clear();
        Ok(())
    }
}

impl Work for Teller<'_, '_, '_> {
    fn begin(&mut self, range: usize) -> Result<()> {
        self.range = range;
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
        } else if self.text.len() >= FULL {
            self.hand_on()?;
        }
        Ok(length)
    }

    fn end(&mut self) -> Result<()> {
        self.hand_on()?;
        let done = std::mem::take(&mut self.done);
        self.line.change(|state| {
            state.turn += 1;
            state.done.bytes += done.bytes;
            state.done.checksum.join(done.checksum);
        });
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        self.closed = true;
        Ok(())
    }
}

impl Drop for Teller<'_, '_, '_> {
    fn drop(&mut self) {
        if !self.closed {
            self.line.change(|state| state.failed = true);
        }
    }
}
