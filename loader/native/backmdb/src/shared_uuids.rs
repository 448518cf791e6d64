//! Finds entries that share their entryUUID: slapadd accepts them, but replication cannot tell them apart.

use std::path::Path;
use std::sync::{Arc, Mutex};

use codec::{ad2i, tables};
use common::{Counters, Result};
use extsort::TupleSorter;
use lmdbfile::{Reader, TableReader};

use crate::audit::dn;
use crate::audit::ranges::{scan, side_by_side};
use crate::changes::{id_of, uuid_of};
use crate::{VerifyMeans, lock};

/// Entries in one unit of work for the look-ups.
const LOOKED_UP: usize = 1024;
/// Workers per processor: a look-up waits for the disk, which serves many reads at once. Of 30 million entries 210,000
/// are looked up because their keys collide.
const FOR_EACH: usize = 16;

/// An entryUUID that at least two entries have, and the DNs of two of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedUuid {
    pub uuid: String,
    pub dns: (String, String),
}

type UuidSorter = Mutex<TupleSorter<[u64; 3]>>;

/// Returns the first `limit` entryUUIDs that several entries of a data file share. An equality index of entryUUID
/// leaves few entries to read; without it all are read. `txn`: of the reader slot that holds the snapshot.
pub fn shared_uuids(
    path: &Path,
    txn: Option<u64>,
    limit: usize,
    means: &VerifyMeans,
    counters: &Counters,
) -> Result<Vec<SharedUuid>> {
    let reader = tables::with_orders(Reader::open_at(path, txn)?);
    let (Some(id2e), Some(number)) = (reader.table(b"id2e"), uuid_number(&reader)?) else {
        return Ok(Vec::new());
    };
    let stop = Arc::clone(counters.flag());
    let sorter = Mutex::new(TupleSorter::new(means.memory, means.jobs, &means.scratch, &stop));
    let search = Search { number, jobs: means.jobs, sorter: &sorter, counters };
    match index(&reader, &id2e) {
        Some(index) => search.by_index(&reader, &index)?,
        None => scan(
            &reader,
            &id2e,
            (means.jobs, counters),
            |id, value, found| search.note(id, value, found),
            |found| search.keep(found),
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

/// Returns the index table if it has one posting per entry: not if it also indexes presence, or lacks entries.
fn index<'r>(reader: &'r Reader, id2e: &TableReader<'_>) -> Option<TableReader<'r>> {
    let complete = |table: &TableReader<'_>| table.record().entries == id2e.record().entries;
    reader.table(b"entryUUID").filter(complete)
}

struct Search<'a> {
    /// The number of entryUUID in ad2i.
    number: u32,
    jobs: usize,
    /// The two halves of an entryUUID, and the entry's ID.
    sorter: &'a UuidSorter,
    counters: &'a Counters,
}

impl Search<'_> {
    /// Reads the entries that share their index key with others: the key is a 32-bit hash.
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
                let mut found = Vec::new();
                for id in parts[at] {
                    if let Some(value) = id2e.get(&id.to_ne_bytes())? {
                        self.note(*id, &value, &mut found)?;
                    }
                }
                self.keep(found)?;
            }
            Ok(())
        })
    }

    #[allow(clippy::cast_possible_truncation, reason = "the two halves")]
    fn note(&self, id: u64, value: &[u8], found: &mut Vec<[u64; 3]>) -> Result<()> {
        let uuid = uuid_of(value, self.number)?;
        found.extend(uuid.map(|uuid| [(uuid >> 64) as u64, uuid as u64, id]));
        Ok(())
    }

    fn keep(&self, found: Vec<[u64; 3]>) -> Result<()> {
        let mut sorter = lock(self.sorter);
        found.into_iter().try_for_each(|tuple| sorter.push(tuple))
    }
}

fn pairs(sorter: TupleSorter<[u64; 3]>, limit: usize, reader: &Reader) -> Result<Vec<SharedUuid>> {
    let Some(dn2i) = reader.table(b"dn2i") else { return Ok(Vec::new()) };
    let mut found: Vec<SharedUuid> = Vec::new();
    let (mut before, mut reported) = (None::<[u64; 3]>, None);
    for tuple in sorter.finish()? {
        let tuple: [u64; 3] = tuple?;
        let uuid = [tuple[0], tuple[1]];
        let twin = before.replace(tuple).filter(|twin| twin[..2] == uuid && reported != Some(uuid));
        if let Some(twin) = twin {
            if found.len() == limit {
                break;
            }
            reported = Some(uuid);
            let text = values::uuid::spelled((u128::from(uuid[0]) << 64) | u128::from(uuid[1]));
            let name = |id| dn(&dn2i, id).unwrap_or_else(|| format!("the entry with ID {id}"));
            found.push(SharedUuid {
                uuid: String::from_utf8_lossy(&text).into_owned(),
                dns: (name(twin[2]), name(tuple[2])),
            });
        }
    }
    Ok(found)
}
