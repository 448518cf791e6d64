//! Finds entries that share their entryUUID: slapadd accepts them, but replication cannot tell them apart.

use std::path::Path;
use std::sync::Mutex;

use codec::{ad2i, tables};
use common::{Counters, Result};
use extsort::TupleSorter;
use lmdbfile::{Reader, TableReader};

use crate::audit::dn;
use crate::audit::ranges::{scan, side_by_side};
use crate::changes::{id_of, uuid_of};
use crate::{VerifyMeans, lock, uuid_text};

/// Number of entries that a worker looks up in one turn.
const LOOKED_UP: usize = 1024;
/// Number of workers per processor. A look-up waits for the disk, which serves many reads at once. In a database of 30
/// million entries, 210,000 entries are looked up because their index keys collide.
const FOR_EACH: usize = 16;

/// An entryUUID that at least two entries have, and the DNs of two of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedUuid {
    pub uuid: String,
    pub dns: (String, String),
}

type UuidSorter = Mutex<TupleSorter<[u64; 3]>>;

/// Returns the first `limit` entryUUIDs that several entries share. Reads few entries if the file has an equality index
/// of entryUUID, else all entries. `txn`: the transaction of a snapshot that a reader slot protects.
pub fn shared_uuids(
    path: &Path,
    txn: Option<u64>,
    limit: usize,
    resources: &VerifyMeans,
    counters: &Counters,
) -> Result<Vec<SharedUuid>> {
    let reader = tables::with_orders(Reader::open_at(path, txn)?);
    let (Some(id2e), Some(number)) = (reader.table(b"id2e"), uuid_number(&reader)?) else {
        return Ok(Vec::new());
    };
    let (memory, jobs) = (resources.memory, resources.jobs);
    let sorter = Mutex::new(TupleSorter::new(memory, jobs, &resources.scratch, counters.flag()));
    let search = Search { number, jobs, sorter: &sorter, counters };
    match index(&reader, &id2e) {
        Some(index) => search.by_index(&reader, &index)?,
        None => scan(
            &reader,
            &id2e,
            (jobs, counters),
            |id, value, tuples| search.note(id, value, tuples),
            |tuples| search.keep(tuples),
        )?,
    }
    let sorter = sorter.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    pairs(sorter, limit, &reader)
}

/// Returns the number of entryUUID in ad2i; `None` if no entry has one.
fn uuid_number(reader: &Reader) -> Result<Option<u32>> {
    let Some(table) = reader.table(b"ad2i") else { return Ok(None) };
    let mut cursor = table.cursor()?;
    while let Some((key, text)) = cursor.next()? {
        if text == b"entryUUID" {
            return Ok(ad2i::read(key));
        }
    }
    Ok(None)
}

/// Returns the index table of entryUUID if it has one posting per entry. With presence keys it has more; if it lacks
/// entries, it has fewer.
fn index<'r>(reader: &'r Reader, id2e: &TableReader<'_>) -> Option<TableReader<'r>> {
    reader.table(b"entryUUID").filter(|table| table.record().entries == id2e.record().entries)
}

struct Search<'a> {
    /// The number of entryUUID in ad2i.
    number: u32,
    jobs: usize,
    /// A tuple has the two halves of an entryUUID, and the entry's ID.
    sorter: &'a UuidSorter,
    counters: &'a Counters,
}

impl Search<'_> {
    /// Reads the entries that share their index key, a 32-bit hash, with other entries.
    fn by_index(&self, reader: &Reader, index: &TableReader<'_>) -> Result<()> {
        let (mut ids, mut keys) = (Vec::new(), index.keys()?);
        while let Some(key) = keys.next()? {
            self.counters.check()?;
            if key.count > 1 {
                for id in index.get_all(key.key)? {
                    ids.push(id_of(&id)?);
                }
            }
        }
        ids.sort_unstable();
        let parts: Vec<&[u64]> = ids.chunks(LOOKED_UP).collect();
        side_by_side(reader, FOR_EACH * self.jobs, parts.len(), |reader, turns| {
            let Some(id2e) = reader.table(b"id2e") else { return Ok(()) };
            for at in turns.iter() {
                self.counters.check()?;
                let mut tuples = Vec::new();
                for id in parts[at] {
                    if let Some(value) = id2e.get(&id.to_ne_bytes())? {
                        self.note(*id, &value, &mut tuples)?;
                    }
                }
                self.keep(tuples)?;
            }
            Ok(())
        })
    }

    #[allow(clippy::cast_possible_truncation, reason = "the two halves")]
    fn note(&self, id: u64, value: &[u8], tuples: &mut Vec<[u64; 3]>) -> Result<()> {
        let uuid = uuid_of(value, self.number)?;
        tuples.extend(uuid.map(|uuid| [(uuid >> 64) as u64, uuid as u64, id]));
        Ok(())
    }

    fn keep(&self, tuples: Vec<[u64; 3]>) -> Result<()> {
        let mut sorter = lock(self.sorter);
        tuples.into_iter().try_for_each(|tuple| sorter.push(tuple))
    }
}

fn pairs(sorter: TupleSorter<[u64; 3]>, limit: usize, reader: &Reader) -> Result<Vec<SharedUuid>> {
    let Some(dn2i) = reader.table(b"dn2i") else { return Ok(Vec::new()) };
    let mut shared: Vec<SharedUuid> = Vec::new();
    let (mut previous, mut reported) = (None::<[u64; 3]>, None);
    for tuple in sorter.finish()? {
        let tuple: [u64; 3] = tuple?;
        let uuid = [tuple[0], tuple[1]];
        let twin = previous.replace(tuple).filter(|twin| twin[..2] == uuid && reported != Some(uuid));
        if let Some(twin) = twin {
            if shared.len() == limit {
                break;
            }
            reported = Some(uuid);
            let uuid = uuid_text((u128::from(uuid[0]) << 64) | u128::from(uuid[1]));
            let name = |id| dn(&dn2i, id).unwrap_or_else(|| format!("the entry with ID {id}"));
            shared.push(SharedUuid { uuid, dns: (name(twin[2]), name(tuple[2])) });
        }
    }
    Ok(shared)
}
