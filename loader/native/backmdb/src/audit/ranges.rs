//! Reads tables in parallel, by ranges of entry IDs. Each worker has a reader of its own.

use ldif::Counters;
use lmdbfile::{Cursor, Reader, TableReader};
use workers::Turns;

use super::findings::{Finding, Findings, Kind};
use crate::changes::id_of;
use crate::{Error, Result};

/// Minimum number of ranges per worker; a large table has up to twice as many. Enough ranges keep all workers busy
/// until the end. With too many ranges, the read-ahead of a worker would often read the range of another worker.
const SPANS: usize = 64;

/// A range of IDs that includes `from` but not `to`. If `to` is `None`, it ends with the last ID.
#[derive(Debug, Clone, Copy)]
pub struct IdRange {
    pub from: u64,
    pub to: Option<u64>,
}

impl IdRange {
    pub fn has(&self, id: u64) -> bool {
        id >= self.from && self.to.is_none_or(|to| id < to)
    }
}

/// The reason why reading a table ended early.
pub enum StopReason {
    /// The file is damaged.
    Damage(Box<Finding>),
    /// An error that does not mean a damaged file.
    Failed(Box<Error>),
}

impl StopReason {
    pub fn damage(finding: Finding) -> Self {
        Self::Damage(Box::new(finding))
    }

    /// Adds the damage to `findings` as a problem of this kind; returns any other error.
    pub fn report(self, kind: Kind, findings: &mut Findings) -> Result<()> {
        match self {
            Self::Failed(error) => Err(*error),
            Self::Damage(finding) => {
                findings.add(kind, || *finding);
                Ok(())
            }
        }
    }
}

impl From<lmdbfile::Error> for StopReason {
    fn from(error: lmdbfile::Error) -> Self {
        if error.kind == lmdbfile::ErrorKind::Io {
            return Self::Failed(Box::new(error.into()));
        }
        Self::damage((&error).into())
    }
}

impl From<Error> for StopReason {
    fn from(error: Error) -> Self {
        Self::Failed(Box::new(error))
    }
}

/// The records in a range of IDs, from a table with keys that begin with an entry ID.
pub struct TableRange<'r> {
    cursor: Cursor<'r>,
    name: &'static str,
    /// Length in bytes of a key. Each key begins with the ID.
    size: usize,
    span: IdRange,
    id: Option<u64>,
}

impl<'r> TableRange<'r> {
    pub fn new(
        table: TableReader<'r>,
        name: &'static str,
        size: usize,
        span: IdRange,
    ) -> std::result::Result<Self, StopReason> {
        let mut cursor = table.cursor()?;
        if span.from > 0 {
            let mut first = span.from.to_ne_bytes().to_vec();
            first.resize(size, 0);
            cursor.seek(&first)?;
        }
        let mut range = Self { cursor, name, size, span, id: None };
        range.step()?;
        Ok(range)
    }

    /// Returns the ID of the current record; `None` at the end.
    pub fn id(&self) -> Option<u64> {
        self.id
    }

    /// Returns the key and the value of the current record. Call it while [`Self::id`] returns an ID.
    pub fn record(&self) -> lmdbfile::Result<(&[u8], &[u8])> {
        self.cursor.current()
    }

    /// Advances to the next record.
    pub fn step(&mut self) -> std::result::Result<(), StopReason> {
        self.id = None;
        let Some((key, _)) = self.cursor.next()? else { return Ok(()) };
        let Some(id) = codec::id::first(key).filter(|_| key.len() == self.size) else {
            let what = format!("a key of {} bytes instead of {}", key.len(), self.size);
            return Err(StopReason::damage(Finding::new(what).of_table(self.name)));
        };
        self.id = Some(id).filter(|id| self.span.has(*id));
        Ok(())
    }
}

/// Divides the IDs of a table into ranges for `jobs` workers. Ranges after the first begin at keys of upper branches.
pub fn id_ranges(table: &TableReader<'_>, jobs: usize) -> Vec<IdRange> {
    let count = SPANS.saturating_mul(jobs.max(1));
    // Damage is reported later, when the records are read.
    let cuts = table.cuts(count).unwrap_or_default();
    let chosen = cuts.iter().step_by((cuts.len() / count).max(1));
    let mut ids: Vec<u64> = chosen.filter_map(|key| codec::id::first(key)).filter(|id| *id > 0).collect();
    ids.sort_unstable();
    ids.dedup();
    let ends = ids.iter().map(|id| Some(*id)).chain([None]);
    let starts = std::iter::once(0).chain(ids.iter().copied());
    starts.zip(ends).map(|(from, to)| IdRange { from, to }).collect()
}

/// Calls `work` in `jobs` threads, but at most `parts`. The threads share `parts` turns; after an error, they get no
/// more turns.
pub fn side_by_side(
    reader: &Reader,
    jobs: usize,
    parts: usize,
    work: impl Fn(&Reader, &Turns) -> Result<()> + Sync,
) -> Result<()> {
    let readers = (0..jobs.clamp(1, parts.max(1))).map(|_| reader.fork());
    let readers = readers.collect::<lmdbfile::Result<Vec<_>>>()?;
    let turns = Turns::new(parts);
    workers::side_by_side(readers, &|| turns.stop(), |reader| work(&reader, &turns)).map(drop)
}

/// Passes every entry of id2e to `note`, by ranges of IDs in `jobs` threads. `keep` gets the notes of each range.
pub fn scan<T: Default>(
    reader: &Reader,
    id2e: &TableReader<'_>,
    (jobs, counters): (usize, &Counters),
    note: impl Fn(u64, &[u8], &mut T) -> Result<()> + Sync,
    keep: impl Fn(T) -> Result<()> + Sync,
) -> Result<()> {
    counters.begin("entries", id2e.record().entries);
    let spans = id_ranges(id2e, jobs);
    side_by_side(reader, jobs, spans.len(), |reader, turns| {
        let Some(id2e) = reader.table(b"id2e") else { return Ok(()) };
        for at in turns.iter() {
            counters.check()?;
            let (mut notes, mut seen, mut cursor) = (T::default(), 0, id2e.cursor()?);
            cursor.seek(&spans[at].from.to_ne_bytes())?;
            while let Some((key, value)) = cursor.next()? {
                let id = id_of(key)?;
                if !spans[at].has(id) {
                    break;
                }
                seen += 1;
                note(id, value, &mut notes)?;
            }
            counters.advance(seen);
            keep(notes)?;
        }
        Ok(())
    })
}
