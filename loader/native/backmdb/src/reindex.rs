//! Rebuilds indexes of an existing database from its entries, as slapindex fills emptied tables. The change is atomic:
//! the file has either all new tables or all old tables.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use codec::tables;
use extsort::Sorted;
use ldif::Counters;
use lmdbfile::{NextSnapshot, Reader};
use schema::Schema;

use crate::audit::indexes::{ConfiguredIndexes, ExpectedPostings, table_name};
use crate::audit::ranges::{StopReason, TableRange, id_ranges, side_by_side};
use crate::numbering::Numbering;
use crate::postings;
use crate::stored_keys::StoredKeys;
use crate::verify::{self, Resources, table, wrong};
use crate::{Code, Error, Result, Settings};

/// Number of entries after which the sorter may sort its buffers and the cancel flag is checked.
const PATIENCE: u64 = 1024;

/// Rebuilds the index tables of `attributes` in the file at `path`, which no other process may have open. The change is
/// durable on return. The file may grow to the map size of the settings.
///
/// Fails before any change, with the name of the index, if an index cannot be computed reliably.
pub fn reindex(
    path: &Path,
    known: (&Schema, &Settings),
    attributes: &[String],
    resources: &Resources,
    counters: &Counters,
) -> Result<()> {
    let reader = tables::with_orders(Reader::open(path)?);
    let configured = chosen_indexes(&reader, known, attributes)?;
    let texts = reader.table(b"ad2i").map_or_else(|| Ok(Vec::new()), verify::descriptions)?;
    let keys = StoredKeys::new(known.0, &configured, &texts)?;
    let sorted = read(&reader, &configured, &keys, resources, counters)?;
    let mut next = NextSnapshot::begin(&reader, path, known.1.map_size)?;
    write(&configured, &sorted, &mut next, counters)?;
    counters.begin("sync", 0);
    counters.check()?;
    next.commit()?;
    Ok(())
}

/// Returns the configuration of the index tables of `attributes`.
fn chosen_indexes(
    reader: &Reader,
    (schema, settings): (&Schema, &Settings),
    attributes: &[String],
) -> Result<ConfiguredIndexes> {
    let unknown = |name: &String| Error::new(Code::Unproven, format!("no attribute {name}"));
    let named = attributes.iter().map(|name| table_name(schema, name).ok_or_else(|| unknown(name)));
    let tables = named.collect::<Result<BTreeSet<_>>>()?;
    let mut chosen = settings.clone();
    chosen.indexes.retain(|(name, _)| table_name(schema, name).is_some_and(|table| tables.contains(&table)));
    let configured = ConfiguredIndexes::of(reader, schema, &chosen)?;
    match configured.notes.first() {
        Some(note) => Err(Error::new(Code::Unproven, note)),
        None => Ok(configured),
    }
}

/// Returns the number of entries, and the sorted index keys. The position of an entry's keys is its ID minus 1.
fn read(
    reader: &Reader,
    configured: &ConfiguredIndexes,
    keys: &StoredKeys<'_>,
    resources: &Resources,
    counters: &Counters,
) -> Result<Sorted> {
    let id2e = table(reader, "id2e")?;
    let expected = id2e.record().entries;
    counters.begin("entries", expected);
    let (ranges, entries) = (id_ranges(&id2e, resources.jobs), AtomicU64::new(0));
    let postings = configured.postings(resources, counters);
    side_by_side(reader, resources.jobs, ranges.len(), |reader, turns| {
        let (entries_table, values_table) = (table(reader, "id2e")?, reader.table(b"id2v"));
        let mut posted = ExpectedPostings::new(postings.writer());
        for at in turns.iter() {
            let mut stored = TableRange::new(entries_table, "id2e", 8, ranges[at])?;
            let mut unreported = 0;
            while let Some(id) = stored.id() {
                let (_, value) = stored.record()?;
                // The entry of the empty DN has the ID 0 and no index keys. An ID that was reserved but never used has
                // an empty value.
                if id > 0 && !value.is_empty() {
                    keys.of_entry(id, value, values_table.as_ref(), &mut posted.at(id - 1))?;
                }
                stored.step()?;
                unreported += 1;
                if unreported == PATIENCE || stored.id().is_none() {
                    counters.check()?;
                    counters.advance(unreported);
                    entries.fetch_add(std::mem::take(&mut unreported), Ordering::Relaxed);
                    posted.writer.finish_index()?;
                }
            }
        }
        posted.end()
    })?;
    let entries = entries.into_inner();
    if entries != expected {
        return Err(wrong(format!("{entries} entries in id2e, which should have {expected}")));
    }
    postings.finish(resources.jobs)
}

/// Writes all index tables.
fn write(
    configured: &ConfiguredIndexes,
    sorted: &Sorted,
    next: &mut NextSnapshot<'_>,
    counters: &Counters,
) -> Result<()> {
    counters.begin("write", configured.indexes.tables.len() as u64);
    let exponent = configured.settings.list_exponent;
    for (at, index) in configured.indexes.tables.iter().enumerate() {
        counters.check()?;
        let table = postings::write(next.file(), sorted, at, &Numbering::plain(), exponent)?;
        next.put(index.name.as_bytes(), table);
        counters.advance(1);
    }
    Ok(())
}

impl From<StopReason> for Error {
    fn from(reason: StopReason) -> Self {
        match reason {
            StopReason::Failed(error) => *error,
            StopReason::Damage(finding) => wrong(finding.to_string()),
        }
    }
}
