//! Rebuilds indexes of an existing database from its entries, as slapindex fills emptied tables. The change is atomic:
//! either all new tables are there, or the old ones.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use codec::tables;
use extsort::Sorted;
use ldif::Counters;
use lmdbfile::{NextSnapshot, Reader, TableReader};
use schema::Schema;

use crate::audit::indexes::{ConfiguredIndexes, ExpectedPostings, table_name};
use crate::audit::ranges::{IdRange, StopReason, TableRange, id_ranges, side_by_side};
use crate::numbering::Numbering;
use crate::postings;
use crate::stored_keys::StoredKeys;
use crate::verify::{self, Resources, table, wrong};
use crate::{Code, Error, Result, Settings};

/// Entries after which the sorter may sort its buffers and the cancel flag is checked.
const PATIENCE: u64 = 1024;

/// The result of a reindexing.
#[derive(Debug, Default)]
pub struct Reindexed {
    /// Entries that were read.
    pub entries: u64,
    /// Index table -> values in it.
    pub tables: BTreeMap<String, u64>,
}

/// Rebuilds the index tables of `attributes` in the file at `path`, which nobody else may have open. The change is
/// durable on return. The file may grow to the map size of the settings.
///
/// Fails before any change, with the name, if an index cannot be computed reliably.
pub fn reindex(
    path: &Path,
    known: (&Schema, &Settings),
    attributes: &[String],
    means: &Resources,
    counters: &Counters,
) -> Result<Reindexed> {
    let reader = tables::with_orders(Reader::open(path)?);
    let asked = wanted(&reader, known, attributes)?;
    let texts = reader.table(b"ad2i").map_or_else(|| Ok(Vec::new()), verify::descriptions)?;
    let keys = StoredKeys::new(known.0, &asked, &texts)?;
    let task = Task { asked: &asked, keys: &keys, means, counters };
    let (entries, sorted) = task.read(&reader)?;
    let mut next = NextSnapshot::begin(&reader, path, known.1.map_size)?;
    let tables = task.write(&sorted, &mut next)?;
    counters.begin("sync", 0);
    counters.check()?;
    next.commit()?;
    Ok(Reindexed { entries, tables })
}

/// Returns the part of the configuration about the index tables of `attributes`.
fn wanted(
    reader: &Reader,
    (schema, settings): (&Schema, &Settings),
    attributes: &[String],
) -> Result<ConfiguredIndexes> {
    let unknown = |name: &String| Error::new(Code::Unproven, format!("no attribute {name}"));
    let named = attributes.iter().map(|name| table_name(schema, name).ok_or_else(|| unknown(name)));
    let tables = named.collect::<Result<BTreeSet<_>>>()?;
    let mut chosen = settings.clone();
    chosen.indexes.retain(|(name, _)| table_name(schema, name).is_some_and(|table| tables.contains(&table)));
    let asked = ConfiguredIndexes::of(reader, schema, &chosen)?;
    match asked.notes.first() {
        Some(note) => Err(Error::new(Code::Unproven, note)),
        None => Ok(asked),
    }
}

struct Task<'a> {
    asked: &'a ConfiguredIndexes,
    keys: &'a StoredKeys<'a>,
    means: &'a Resources,
    counters: &'a Counters,
}

impl Task<'_> {
    /// Returns the number of entries and their postings, by ID counted from 0.
    fn read(&self, reader: &Reader) -> Result<(u64, Sorted)> {
        let entries = table(reader, "id2e")?;
        self.counters.begin("entries", entries.record().entries);
        let (spans, found) = (id_ranges(&entries, self.means.jobs), AtomicU64::new(0));
        let postings = self.asked.postings(self.means, self.counters);
        side_by_side(reader, self.means.jobs, spans.len(), |reader, turns| {
            let keys = ExpectedPostings::new(postings.writer());
            let mut span =
                Span { task: self, id2e: table(reader, "id2e")?, id2v: reader.table(b"id2v"), keys, entries: 0 };
            for at in turns.iter() {
                span.read(spans[at]).map_err(as_error)?;
            }
            found.fetch_add(span.entries, Ordering::Relaxed);
            span.keys.end()
        })?;
        let (found, expected) = (found.into_inner(), entries.record().entries);
        if found != expected {
            return Err(wrong(format!("{found} entries in id2e, which should have {expected}")));
        }
        Ok((found, postings.finish(self.means.jobs)?))
    }

    fn write(&self, sorted: &Sorted, next: &mut NextSnapshot<'_>) -> Result<BTreeMap<String, u64>> {
        let names: Vec<_> = self.asked.indexes.tables.iter().map(|table| &table.name).collect();
        self.counters.begin("write", names.len() as u64);
        let (mut made, exponent) = (BTreeMap::new(), self.asked.settings.list_exponent);
        for (at, name) in names.into_iter().enumerate() {
            self.counters.check()?;
            let table = postings::write(next.file(), sorted, at, &Numbering::plain(), exponent)?;
            made.insert(name.clone(), table.entries);
            next.put(name.as_bytes(), table);
            self.counters.advance(1);
        }
        Ok(made)
    }
}

fn as_error(reason: StopReason) -> Error {
    match reason {
        StopReason::Failed(error) => *error,
        StopReason::Damage(finding) => wrong(finding.to_string()),
    }
}

/// The state of one worker, which reads ranges of entries.
struct Span<'a> {
    task: &'a Task<'a>,
    id2e: TableReader<'a>,
    id2v: Option<TableReader<'a>>,
    keys: ExpectedPostings,
    entries: u64,
}

impl Span<'_> {
    fn read(&mut self, span: IdRange) -> std::result::Result<(), StopReason> {
        let mut stored = TableRange::new(self.id2e, "id2e", 8, span)?;
        let mut waiting = 0;
        while let Some(id) = stored.id() {
            self.entry(id, &stored.record.value)?;
            stored.step()?;
            waiting += 1;
            if waiting == PATIENCE {
                self.settle(waiting)?;
                waiting = 0;
            }
        }
        Ok(self.settle(waiting)?)
    }

    fn settle(&mut self, entries: u64) -> Result<()> {
        self.entries += entries;
        self.task.counters.check()?;
        self.task.counters.advance(entries);
        self.keys.writer.finish_index()
    }

    /// Generates no keys for the entry of the empty DN, whose ID is 0, or for an ID that was reserved and never used.
    fn entry(&mut self, id: u64, value: &[u8]) -> std::result::Result<(), StopReason> {
        let Some(position) = id.checked_sub(1).filter(|_| !value.is_empty()) else {
            return Ok(());
        };
        let mut keys = self.keys.at(position);
        Ok(self.task.keys.of_entry(id, value, self.id2v.as_ref(), &mut keys)?)
    }
}
