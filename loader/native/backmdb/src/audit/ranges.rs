//! Tables by ranges of entry IDs, which workers with a reader of their own take in turn.

use ldif::Counters;
use lmdbfile::{Peekable, Reader, TableReader};
use workers::Turns;

use super::findings::Finding;
use crate::changes::id_of;
use crate::{Error, Result};

/// Parts of the entries for each worker, or up to twice as many: so many keep all of them at work to the end. Were there
/// many more, a worker would often read ahead of itself what another one has to read.
const SPANS: usize = 64;

/// IDs from `from` up to, but without, `to`.
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

/// Why a table is not read to its end.
#[derive(Debug)]
pub enum StopReason {
    Damage(Box<Finding>),
    /// Nothing that the file is to blame for.
    Failed(Box<Error>),
}

impl StopReason {
    pub fn damage(finding: Finding) -> Self {
        Self::Damage(Box::new(finding))
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

/// The records of a table whose keys begin with an entry ID, within a span.
#[derive(Debug)]
pub struct TableRange<'r> {
    /// In hand while there is an [`id`](Self::id).
    pub record: Peekable<'r>,
    name: &'static str,
    /// Bytes of a key: the ID, and what may follow it.
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
        let mut first = Vec::new();
        if span.from > 0 {
            first.extend_from_slice(&span.from.to_ne_bytes());
            first.resize(size, 0);
        }
        let record = Peekable::new(&table, &first)?;
        let mut range = Self { record, name, size, span, id: None };
        range.read_id()?;
        Ok(range)
    }

    /// Of the record in hand; `None` when there is none.
    pub fn id(&self) -> Option<u64> {
        self.id
    }

    /// On to the next record.
    pub fn step(&mut self) -> std::result::Result<(), StopReason> {
        self.record.step()?;
        self.read_id()
    }

    fn read_id(&mut self) -> std::result::Result<(), StopReason> {
        self.id = None;
        if !self.record.live {
            return Ok(());
        }
        let key = &self.record.key;
        let Some(id) = codec::id::first(key).filter(|_| key.len() == self.size) else {
            let what = format!("a key of {} bytes where all have {}", key.len(), self.size);
            return Err(StopReason::damage(Finding::new(what).of_table(self.name)));
        };
        self.id = Some(id).filter(|id| self.span.has(*id));
        Ok(())
    }
}

/// Cut at keys of id2e's upper branches, for so many workers.
pub fn id_ranges(id2e: &TableReader<'_>, jobs: usize) -> Vec<IdRange> {
    let wanted = SPANS.saturating_mul(jobs.max(1));
    // Whoever walks will meet what is damaged, and tell.
    let cuts = id2e.cuts(wanted).unwrap_or_default();
    let some = cuts.iter().step_by((cuts.len() / wanted).max(1));
    let ids = some.filter_map(|key| codec::id::first(key));
    let mut ids: Vec<u64> = ids.filter(|id| *id > 0).collect();
    ids.sort_unstable();
    ids.dedup();
    let ends = ids.iter().map(|id| Some(*id)).chain([None]);
    let starts = std::iter::once(0).chain(ids.iter().copied());
    starts.zip(ends).map(|(from, to)| IdRange { from, to }).collect()
}

/// Calls `work` in each of `jobs` threads, or in fewer where there are fewer parts. After an error nobody takes another
/// part.
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

/// Shows every entry of id2e to `note`, in ranges that `jobs` workers take; `keep` gets what was noted of each range.
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
            let (mut noted, mut seen, mut cursor) = (T::default(), 0, id2e.cursor()?);
            cursor.seek(&spans[at].from.to_ne_bytes())?;
            while let Some((key, value)) = cursor.next()? {
                let id = id_of(key)?;
                if !spans[at].has(id) {
                    break;
                }
                seen += 1;
                note(id, value, &mut noted)?;
            }
            counters.advance(seen);
            keep(noted)?;
        }
        Ok(())
    })
}
