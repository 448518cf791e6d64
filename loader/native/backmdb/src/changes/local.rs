//! Finds the IDs of entries that changed at the provider, and of entries that the provider no longer has.

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use common::{InFile, WithCode};
use lmdbfile::Reader;
use rustc_hash::{FxHashMap, FxHashSet};
use tree::claim::Claim;

use super::edits::RefreshContext;
use super::incoming::uuid_of;
use super::{SyncResult, Uuid};
use crate::audit::ranges::{scan, side_by_side};
use crate::indexer::IndexKeys;
use crate::{Code, Error, Result, damaged_entry, lock, uuid_text};
use codec::id2e;

/// Number of threads that look up entries: a disk is busy only with many parallel reads.
const READERS: usize = 32;

/// Size of an entryUUID in the lists of the provider's report, in bytes.
const UUID: usize = 16;

/// IDs of the entries to change.
#[derive(Debug, Default)]
pub struct Local {
    /// Changed entries, by entryUUID.
    pub changed: FxHashMap<Uuid, u64>,
    /// Deleted entries, ascending.
    pub gone: Vec<u64>,
    /// entryUUIDs of entries that the provider reported as deleted or lost.
    deleted: FxHashSet<Uuid>,
}

impl Local {
    /// Adds the IDs of `other`. Fails if two entries share a reported entryUUID: the report may mean either of them.
    fn absorb(&mut self, other: Self) -> Result<()> {
        for (uuid, id) in other.changed {
            require_single(uuid, self.changed.insert(uuid, id).is_none())?;
        }
        for uuid in other.deleted {
            require_single(uuid, self.deleted.insert(uuid))?;
        }
        self.gone.extend(other.gone);
        Ok(())
    }
}

fn require_single(uuid: Uuid, single: bool) -> Result<()> {
    if single {
        return Ok(());
    }
    Err(Error::new(Code::Unproven, format!("two entries share the entryUUID {}", uuid_text(uuid))))
}

/// The provider's report, prepared for look-ups.
struct LocalQuery<'a> {
    /// Numbers of the changed entries, by entryUUID.
    received: &'a FxHashMap<Uuid, usize>,
    /// Unchanged entries, sorted, if the provider lists them.
    present: Option<Vec<Uuid>>,
    /// Deleted and lost entries.
    gone: FxHashSet<Uuid>,
    uuid_number: u32,
    csn_number: u32,
    /// The contextCSN that the database has before the update.
    reached: Claim,
}

/// Finds the entries with the entryUUIDs of `received`, and the entries that the provider no longer has.
pub fn find(task: &RefreshContext<'_>, received: &FxHashMap<Uuid, usize>, uuid_number: u32) -> Result<Local> {
    let query = LocalQuery::new(task, received, uuid_number)?;
    let by_index = match (&query.present, index(task)) {
        (None, Some(index)) => query.by_index(task, index)?,
        _ => None,
    };
    let mut local = by_index.map_or_else(|| query.by_scan(task), Ok)?;
    local.gone.sort_unstable();
    Ok(local)
}

/// Finds the IDs of entries by their entryUUIDs.
pub fn locate(task: &RefreshContext<'_>, uuids: impl IntoIterator<Item = Uuid>) -> Result<FxHashMap<Uuid, u64>> {
    let by_uuid = uuids.into_iter().map(|uuid| (uuid, 0)).collect();
    find(task, &by_uuid, task.shared.columns.number_of(b"entryUUID")?).map(|local| local.changed)
}

impl<'a> LocalQuery<'a> {
    fn new(task: &RefreshContext<'_>, received: &'a FxHashMap<Uuid, usize>, uuid_number: u32) -> Result<Self> {
        let SyncResult { present, deleted, lost, reached, .. } = task.report;
        let mut gone: FxHashSet<Uuid> = lost.iter().copied().collect();
        for path in deleted {
            gone.extend(uuids(path)?);
        }
        let mut present = present.as_deref().map(uuids).transpose()?;
        if let Some(present) = &mut present {
            present.sort_unstable();
        }
        let csn_number = task.database.texts.iter().position(|text| text == "entryCSN");
        let csn_number = csn_number.map_or(0, |at| u32::try_from(at + 1).unwrap_or(0));
        let reached = Claim::new(reached);
        Ok(Self { received, present, gone, uuid_number, csn_number, reached })
    }

    /// Adds an entry to `local` unless it is unchanged. `value`: its value in id2e.
    fn note(&self, id: u64, value: &[u8], local: &mut Local) -> Result<()> {
        let Some(uuid) = uuid_of(value, self.uuid_number)? else { return Ok(()) };
        if self.received.contains_key(&uuid) {
            return require_single(uuid, local.changed.insert(uuid, id).is_none());
        }
        let is_absent = self.present.as_ref().is_some_and(|present| present.binary_search(&uuid).is_err());
        if !is_absent && !self.gone.contains(&uuid) {
            return Ok(());
        }
        self.require_old(value)?;
        if !is_absent {
            require_single(uuid, local.deleted.insert(uuid))?;
        }
        local.gone.push(id);
        Ok(())
    }

    /// Fails if the entry is newer than the contextCSN of the database: slapd's consumer would not delete such an
    /// entry.
    fn require_old(&self, value: &[u8]) -> Result<()> {
        let mut newer = false;
        id2e::each(value, damaged_entry, |stored| {
            if stored.number == self.csn_number {
                stored.each_value(|csn| newer |= self.reached.older_csn(tree::csn::pack(csn)).is_some());
            }
            Ok(())
        })?;
        if newer {
            let message = "an entry that the provider lacks is newer than the contextCSN of the database";
            return Err(Error::new(Code::Unproven, message));
        }
        Ok(())
    }

    fn by_scan(&self, task: &RefreshContext<'_>) -> Result<Local> {
        let (options, counters) = (task.shared.options, task.shared.counters);
        let all = Mutex::new(Local::default());
        let note = |id, value: &[u8], local: &mut Local| self.note(id, value, local);
        let keep = |local| lock(&all).absorb(local);
        scan(task.reader, &task.database.id2e, (options.jobs, counters), note, keep)?;
        Ok(std::mem::take(&mut *lock(&all)))
    }

    /// Looks up the entries in the index of entryUUID, which has number `table`. Returns `None` if a key has a range.
    fn by_index(&self, task: &RefreshContext<'_>, table: usize) -> Result<Option<Local>> {
        let uuids = self.received.keys().chain(&self.gone);
        let mut keys = uuids.map(|uuid| index_key(task, table, *uuid)).collect::<Result<Vec<_>>>()?;
        keys.sort_unstable();
        keys.dedup();
        let (all, has_range) = (Mutex::new(Local::default()), AtomicBool::new(false));
        let parts: Vec<&[Vec<u8>]> = keys.chunks(1024).collect();
        let name = task.database.indexes.tables[table].name.as_bytes();
        side_by_side(task.reader, READERS, parts.len(), |reader, turns| {
            for at in turns.iter() {
                match self.part(reader, name, parts[at])? {
                    Some(local) => lock(&all).absorb(local)?,
                    None => has_range.store(true, Relaxed),
                }
            }
            Ok(())
        })?;
        let local = std::mem::take(&mut *lock(&all));
        Ok((!has_range.into_inner()).then_some(local))
    }

    fn part(&self, reader: &Reader, index: &[u8], keys: &[Vec<u8>]) -> Result<Option<Local>> {
        let mut local = Local::default();
        let [table, id2e, dn2i] = [index, b"id2e", b"dn2i"].map(|name| reader.table(name));
        let (Some(table), Some(id2e), Some(dn2i)) = (table, id2e, dn2i) else { return Ok(None) };
        for key in keys {
            for id in table.get_all(key)? {
                let id = id_of(&id)?;
                if id == 0 {
                    return Ok(None);
                }
                let key = id.to_ne_bytes();
                if let Some(value) = id2e.get(&key)? {
                    self.note(id, &value, &mut local)?;
                    // Reads the node into the page cache, because later a single thread reads all nodes.
                    dn2i.get(&key)?;
                }
            }
        }
        Ok(Some(local))
    }
}

pub fn id_of(key: &[u8]) -> Result<u64> {
    codec::id::read(key).ok_or_else(|| Error::new(Code::Damaged, "an ID that does not have 8 bytes"))
}

fn uuids(path: impl AsRef<Path>) -> Result<Vec<Uuid>> {
    let path = path.as_ref();
    let bytes = fs::read(path).in_file(Some(path))?;
    if bytes.len() % UUID != 0 {
        return Err(Error::new(Code::Truncated, "a list of entryUUIDs").in_file(Some(path)));
    }
    let uuid = |bytes: &[u8]| u128::from_be_bytes(bytes.try_into().unwrap_or_default());
    Ok(bytes.chunks_exact(UUID).map(uuid).collect())
}

/// Returns the number of entryUUID's index table; `None` if it has no equality index, or if the index lacks entries.
fn index(task: &RefreshContext<'_>) -> Option<usize> {
    let column = task.shared.columns.column(b"entryUUID").ok()?;
    let own = column.indexers.iter().find(|indexer| indexer.equality.is_some() && !indexer.presence)?;
    let postings = task.database.index_tables[own.table].record().entries;
    (postings >= task.database.entries).then_some(own.table)
}

/// Returns the key of an entryUUID in the index table with this number.
fn index_key(task: &RefreshContext<'_>, table: usize, uuid: Uuid) -> Result<Vec<u8>> {
    let column = task.shared.columns.column(b"entryUUID").with_code(Code::Schema)?;
    let (bytes, mut keys) = (uuid.to_be_bytes(), IndexKeys::default());
    for indexer in column.indexers.iter().filter(|indexer| indexer.table == table) {
        let values = std::iter::once(bytes.as_slice());
        indexer.each(task.shared.settings, values, &[], &mut keys).with_code(Code::Schema)?;
    }
    let key = keys.0.first().map(|(_, key)| key.as_bytes().to_vec());
    key.ok_or_else(|| Error::new(Code::Damaged, "an entryUUID without an index key"))
}
