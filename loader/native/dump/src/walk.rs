//! Divides id2e into ranges of IDs, distributes them among workers, and reads the entries of a range.

use common::Counters;
use lmdbfile::Reader;
use tree::Names;
use workers::{GivenUp, Turns, side_by_side};

use crate::entry::Entry;
use crate::parents::{Nodes, ParentDn, Parents};
use crate::tables::{Descriptions, Tables};
use crate::{Error, Result};

/// Number of records after which a worker updates the counters and checks whether it must stop.
const STEP: u64 = 256;

/// A range of IDs: the first (inclusive) and the end (exclusive); `None` means no bound.
pub(crate) type Range = (Option<u64>, Option<u64>);

/// The numbers of records, entries and ranges that a walk has read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WalkCounts {
    /// Number of records in id2e.
    pub(crate) records: u64,
    /// Number of entries at or below the base.
    pub(crate) entries: u64,
    /// Number of records without content: their entries have children but were never added themselves.
    pub(crate) holes: u64,
    /// Number of ID ranges that the workers shared.
    pub(crate) ranges: usize,
}

/// Processes the entries that one thread reads.
pub(crate) trait Worker {
    /// Begins a range; called with the number of the range before its first entry.
    fn begin(&mut self, _range: usize) -> Result<()> {
        Ok(())
    }

    /// Processes an entry. Returns the number of bytes that count as progress.
    fn entry(&mut self, entry: &Entry<'_>) -> Result<u64>;

    /// Ends a range; called after its last entry.
    fn end(&mut self) -> Result<()>;

    /// Ends the work; called after the last range of this worker.
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A walk over all entries of a database, or over those below a base.
#[derive(Debug)]
pub(crate) struct Plan<'p> {
    pub(crate) jobs: usize,
    /// ID of the base; 0 selects all entries.
    pub(crate) base: u64,
    /// Only greater IDs are read; 0 selects all.
    pub(crate) after: u64,
    pub(crate) ignore: &'p Names,
    /// Size of a range of pages, in bytes.
    pub(crate) piece: u64,
    /// Maximum number of ranges.
    pub(crate) most: usize,
    pub(crate) counters: &'p Counters,
}

impl Plan<'_> {
    /// Processes all ranges. If `after` is 0, fails unless the number of records read is the number that id2e claims.
    /// If a worker fails, `stop` is called, which must wake workers that wait.
    pub(crate) fn run<W: Worker>(
        &self,
        snapshot: &Reader,
        make: impl Fn() -> W + Sync,
        stop: impl Fn() + Sync,
    ) -> Result<WalkCounts> {
        let tables = Tables::of(snapshot)?;
        let ranges = self.ranges(&tables, snapshot.layout().page_size() as u64)?;
        let turns = Turns::new(ranges.len());
        let forks = (0..self.jobs.clamp(1, ranges.len())).map(|_| snapshot.fork());
        let forks = forks.collect::<lmdbfile::Result<Vec<_>>>()?;
        let stop = || {
            turns.stop();
            stop();
        };
        let work = |snapshot: Reader| self.work(&snapshot, &ranges, &turns, make());
        let mut met = WalkCounts { ranges: ranges.len(), ..WalkCounts::default() };
        for one in side_by_side(forks, &stop, work)? {
            met.records += one.records;
            met.entries += one.entries;
            met.holes += one.holes;
        }
        let expected = tables.id2e.record().entries;
        if self.after > 0 || met.records == expected {
            return Ok(met);
        }
        let met = met.records;
        Err(Error::damaged(format!("{met} entries were read, but there should be {expected} (table id2e)")))
    }

    /// Divides id2e into ranges, at least four for each worker; a small table may yield fewer.
    fn ranges(&self, tables: &Tables<'_>, page_size: u64) -> Result<Vec<Range>> {
        let (record, least) = (tables.id2e.record(), 4 * self.jobs);
        let pages = record.leaf_pages.saturating_add(record.overflow_pages);
        let parts = pages.saturating_mul(page_size) / self.piece;
        let parts = usize::try_from(parts).unwrap_or(self.most);
        let parts = parts.clamp(least, self.most.max(least));
        let keys = tables.id2e.cuts(parts)?.iter().map(|key| id(key)).collect::<Result<Vec<_>>>()?;
        let keys = &keys[keys.partition_point(|key| *key <= self.after)..];
        let wanted = parts.min(keys.len() + 1);
        let mut from = (self.after > 0).then(|| self.after.saturating_add(1));
        let mut ranges = Vec::new();
        for at in 1..wanted {
            let cut = Some(keys[at * keys.len() / wanted]);
            ranges.push((from, cut));
            from = cut;
        }
        ranges.push((from, None));
        Ok(ranges)
    }

    fn work<W: Worker>(&self, snapshot: &Reader, ranges: &[Range], turns: &Turns, mut work: W) -> Result<WalkCounts> {
        let tables = Tables::of(snapshot)?;
        let descriptions = Descriptions::read(&tables.ad2i, self.ignore)?;
        let mut walker = Walker::new(&tables, &descriptions, self.base)?;
        let go_on = || if turns.is_stopped() { Err(GivenUp.into()) } else { self.counters.check() };
        for number in turns.iter() {
            go_on()?;
            work.begin(number)?;
            walker.range(ranges[number], self.counters, go_on, |entry| work.entry(entry))?;
            work.end()?;
        }
        work.close()?;
        Ok(walker.met)
    }
}

/// Reads ranges, and keeps its cache of parents from range to range.
pub(crate) struct Walker<'w> {
    tables: Tables<'w>,
    descriptions: &'w Descriptions,
    nodes: Nodes<'w>,
    parents: Parents<'w>,
    place: ParentDn,
    met: WalkCounts,
}

impl<'w> Walker<'w> {
    pub(crate) fn new(tables: &Tables<'w>, descriptions: &'w Descriptions, base: u64) -> Result<Self> {
        Ok(Self {
            tables: *tables,
            descriptions,
            nodes: Nodes::new(&tables.dn2i)?,
            parents: Parents::new(&tables.dn2i, base)?,
            place: ParentDn::default(),
            met: WalkCounts::default(),
        })
    }

    /// Calls `see` for every entry of the range that is at or below the base; the number of bytes that `see` returns is
    /// added to `counters`. `go_on` is called at intervals; its error ends the walk.
    pub(crate) fn range(
        &mut self,
        range: Range,
        counters: &Counters,
        mut go_on: impl FnMut() -> Result<()>,
        mut see: impl FnMut(&Entry<'_>) -> Result<u64>,
    ) -> Result<()> {
        let mut cursor = self.tables.id2e.cursor()?;
        if let Some(from) = range.0 {
            cursor.seek(&from.to_ne_bytes())?;
        }
        let (mut counted, mut bytes) = (self.met.entries, 0);
        while let Some((key, value)) = cursor.next()? {
            let id = id(key)?;
            if range.1.is_some_and(|to| id >= to) {
                break;
            }
            bytes += self.record(id, value, &mut see)?;
            if self.met.records % STEP == 0 {
                go_on()?;
                counters.add(self.met.entries - counted, bytes);
                (counted, bytes) = (self.met.entries, 0);
            }
        }
        counters.add(self.met.entries - counted, bytes);
        Ok(())
    }

    fn record(&mut self, id: u64, value: &[u8], see: &mut impl FnMut(&Entry<'_>) -> Result<u64>) -> Result<u64> {
        self.met.records += 1;
        if value.is_empty() {
            self.met.holes += 1;
            return Ok(0);
        }
        let node = self.nodes.find(id)?;
        let parent = if id == 0 { 0 } else { node.id };
        let base = self.parents.base();
        self.place.set(id, node.pretty, parent, self.parents.get(parent)?, base);
        if !self.place.inside {
            return Ok(0);
        }
        self.met.entries += 1;
        let Self { descriptions, place, tables, .. } = self;
        see(&Entry { id, place, descriptions, value, id2v: tables.id2v })
    }
}

/// Decodes the ID in a key.
pub(crate) fn id(key: &[u8]) -> Result<u64> {
    codec::id::read(key).ok_or_else(|| Error::damaged("a key that is not an ID (table id2e)"))
}
