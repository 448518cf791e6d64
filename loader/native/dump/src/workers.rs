//! Ranges shared out among workers.

use common::Counters;
use tree::Names;
use workers::{GivenUp, Turns, side_by_side};

use crate::entry::Entry;
use crate::ranges::Range;
use crate::tables::Snapshot;
use crate::walk::{WalkCounts, Walker};
use crate::{Error, Result};

/// What a worker does with its entries.
pub(crate) trait Worker {
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

impl Plan<'_> {
    /// Goes through all ranges with as many workers as wanted. Every record of id2e must have been met. `stop` lets
    /// nobody wait any more.
    pub(crate) fn run<W: Worker>(
        &self,
        snapshot: &Snapshot,
        make: impl Fn() -> W + Sync,
        stop: impl Fn() + Sync,
    ) -> Result<WalkCounts> {
        let turns = Turns::new(self.ranges.len());
        let workers = self.jobs.clamp(1, self.ranges.len());
        let snapshots: Vec<_> = (0..workers).map(|_| snapshot.fork()).collect::<Result<_>>()?;
        let stop = || {
            turns.stop();
            stop();
        };
        let work = |snapshot: Snapshot| self.work(&snapshot, &turns, make());
        let mut met = WalkCounts::default();
        side_by_side(snapshots, &stop, work)?.iter().for_each(|one| met.add(one));
        if met.records == self.records {
            return Ok(met);
        }
        let (met, said) = (met.records, self.records);
        Err(Error::damaged(format!("{met} entries were met, {said} should be there (table id2e)")))
    }

    fn work<W: Worker>(
        &self,
        snapshot: &Snapshot,
        turns: &Turns,
        mut work: W,
    ) -> Result<WalkCounts> {
        let tables = snapshot.tables()?;
        let descriptions = tables.descriptions(self.ignore)?;
        let mut walker = Walker::new(&tables, &descriptions, self.base)?;
        let go_on = || if turns.is_stopped() { Err(GivenUp.into()) } else { self.counters.check() };
        for number in turns.iter() {
            go_on()?;
            work.begin(number)?;
            walker.range(self.ranges[number], self.counters, go_on, |entry| work.entry(entry))?;
            work.end()?;
        }
        work.close()?;
        Ok(walker.met)
    }
}
