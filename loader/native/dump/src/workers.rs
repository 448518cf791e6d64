//! Ranges shared out among workers.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;

use ldif::Counters;
use tree::Names;

use crate::entry::Entry;
use crate::ranges::Range;
use crate::tables::Snapshot;
use crate::walk::{Met, Walker};
use crate::{Code, Error, Result, damaged};

/// What a worker does with its entries.
pub(crate) trait Work {
    /// The range of this number comes.
    fn begin(&mut self, _range: usize) -> Result<()> {
        Ok(())
    }

    /// The bytes of it that count.
    fn entry(&mut self, entry: &Entry<'_>) -> Result<u64>;

    /// The range is at its end.
    fn end(&mut self) -> Result<()> {
        Ok(())
    }

    /// No other range comes.
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

/// What all workers have in common.
#[derive(Debug)]
pub(crate) struct Plan<'p> {
    /// Workers.
    pub(crate) jobs: usize,
    /// The ID of the wanted base, 0 for all.
    pub(crate) base: u64,
    /// Attributes that do not count in fingerprints.
    pub(crate) ignore: &'p Names,
    pub(crate) ranges: &'p [Range],
    /// Records that id2e says it has.
    pub(crate) records: u64,
    pub(crate) counters: &'p Counters,
}

#[derive(Debug, Default)]
struct Shared {
    next: AtomicUsize,
    failed: AtomicBool,
    met: Mutex<Met>,
}

impl Plan<'_> {
    /// Goes through all ranges with as many workers as wanted. Every record of id2e must have been met.
    pub(crate) fn carry_out<W: Work>(
        &self,
        snapshot: &Snapshot,
        make: impl Fn() -> W + Sync,
    ) -> Result<Met> {
        let shared = Shared::default();
        let workers = self.jobs.clamp(1, self.ranges.len());
        let snapshots: Vec<_> = (0..workers).map(|_| snapshot.fork()).collect::<Result<_>>()?;
        let work = |snapshot: Snapshot| {
            let done = self.work(&snapshot, &shared, make());
            if done.is_err() {
                shared.failed.store(true, Relaxed);
            }
            done
        };
        let work = &work;
        let results: Vec<_> = thread::scope(|scope| {
            let running = snapshots.into_iter().map(|one| scope.spawn(move || work(one)));
            let running: Vec<_> = running.collect();
            running.into_iter().map(|one| one.join().unwrap_or_else(|_| Err(panicked()))).collect()
        });
        first_error(results)?;
        let met = *shared.met.lock().unwrap_or_else(PoisonError::into_inner);
        if met.records == self.records {
            return Ok(met);
        }
        let (met, said) = (met.records, self.records);
        Err(damaged(format!("{met} entries were met, {said} should be there (table id2e)")))
    }

    fn work<W: Work>(&self, snapshot: &Snapshot, shared: &Shared, mut work: W) -> Result<()> {
        let tables = snapshot.tables()?;
        let descriptions = tables.descriptions(self.ignore)?;
        let mut walker = Walker::new(&tables, &descriptions, self.base)?;
        let go_on = || {
            if shared.failed.load(Relaxed) {
                return Err(given_up());
            }
            self.counters.check()
        };
        loop {
            let number = shared.next.fetch_add(1, Relaxed);
            let Some(range) = self.ranges.get(number) else { break };
            go_on()?;
            work.begin(number)?;
            walker.range(*range, self.counters, go_on, |entry| work.entry(entry))?;
            work.end()?;
        }
        work.close()?;
        let mut met = shared.met.lock().unwrap_or_else(PoisonError::into_inner);
        met.records += walker.met.records;
        met.entries += walker.met.entries;
        met.holes += walker.met.holes;
        Ok(())
    }
}

/// Of several errors that which the others followed from.
fn first_error(results: Vec<Result<()>>) -> Result<()> {
    let mut errors: Vec<_> = results.into_iter().filter_map(Result::err).collect();
    errors.sort_by_key(|error| *error == given_up());
    errors.into_iter().next().map_or(Ok(()), Err)
}

/// Another worker has failed.
pub(crate) fn given_up() -> Error {
    Error::new(Code::Cancelled, "given up")
}

fn panicked() -> Error {
    damaged("a worker ended unexpectedly")
}
