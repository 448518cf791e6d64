//! Finds the database's entries that the provider reported, and those that it no longer has.

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use common::{InFile, WithCode};
use lmdbfile::Reader;
use rustc_hash::{FxHashMap, FxHashSet};
use tree::claim::Claim;

use super::edits::RefreshContext;
use super::incoming::{uuid_number, uuid_of};
use super::{SyncResult, Uuid};
use crate::audit::ranges::{scan, side_by_side};
use crate::indexer::IndexKeys;
use crate::{Code, Error, Result, damaged_entry, lock};
use codec::id2e;

/// Threads that look entries up. As many reads at a time keep a disk busy.
const READERS: usize = 32;

const UUID: usize = 16;

/// IDs of the entries to change.
#[derive(Debug, Default)]
pub struct Local {
    /// Changed entries, by entryUUID.
    pub changed: FxHashMap<Uuid, u64>,
    /// Deleted entries, ascending.
    pub gone: Vec<u64>,
    /// entryUUIDs of entries that the provider reported as deleted.
    deleted: FxHashSet<Uuid>,
}

impl Local {
    /// Fails if two entries share a reported entryUUID: it is unclear which of them the provider meant.
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
    let uuid = values::uuid::spelled(uuid);
    let message = format!("two entries share the entryUUID {}", String::from_utf8_lossy(&uuid));
    Err(Error::new(Code::Unproven, message))
}

/// Decides what the provider's report means for each entry.
struct LocalQuery<'a> {
    arrived: &'a FxHashMap<Uuid, usize>,
    present: Option<Vec<Uuid>>,
    gone: FxHashSet<Uuid>,
    uuid_number: u32,
    csn_number: u32,
    reached: Claim,
}

enum LocalState {
    Changed(Uuid),
    /// The provider reported its entryUUID as deleted.
    Deleted(Uuid),
    /// Its entryUUID is missing from the list of present entries.
    Absent,
    Unchanged,
}

pub fn find(task: &RefreshContext<'_>, arrived: &FxHashMap<Uuid, usize>, uuid_number: u32) -> Result<Local> {
    let asked = LocalQuery::new(task, arrived, uuid_number)?;
    let mut local = match (&asked.present, index(task)) {
        (None, Some(index)) => match asked.by_index(task, &index)? {
            Some(local) => local,
            None => asked.by_scan(task)?,
        },
        _ => asked.by_scan(task)?,
    };
    local.gone.sort_unstable();
    Ok(local)
}

/// Finds the IDs of entries by their entryUUIDs.
pub fn locate(task: &RefreshContext<'_>, uuids: impl IntoIterator<Item = Uuid>) -> Result<FxHashMap<Uuid, u64>> {
    let by_uuid = uuids.into_iter().map(|uuid| (uuid, 0)).collect();
    find(task, &by_uuid, uuid_number(task.shared)?).map(|local| local.changed)
}

impl<'a> LocalQuery<'a> {
    fn new(task: &RefreshContext<'_>, arrived: &'a FxHashMap<Uuid, usize>, uuid_number: u32) -> Result<Self> {
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
        Ok(Self { arrived, present, gone, uuid_number, csn_number, reached })
    }

    fn of(&self, value: &[u8]) -> Result<LocalState> {
        let Some(uuid) = uuid_of(value, self.uuid_number)? else {
            return Ok(LocalState::Unchanged);
        };
        if self.arrived.contains_key(&uuid) {
            return Ok(LocalState::Changed(uuid));
        }
        let absent = self.present.as_ref().is_some_and(|all| all.binary_search(&uuid).is_err());
        if !absent && !self.gone.contains(&uuid) {
            return Ok(LocalState::Unchanged);
        }
        self.require_old(value)?;
        Ok(if absent { LocalState::Absent } else { LocalState::Deleted(uuid) })
    }

    /// Fails if the entry is newer than the database's contextCSN: slapd's consumer would keep it as its own.
    fn require_old(&self, value: &[u8]) -> Result<()> {
        let mut newer = false;
        id2e::each(value, damaged_entry, |stored| {
            if stored.number == self.csn_number {
                stored.each_value(|csn| newer |= self.reached.older_csn(csn).is_some());
            }
            Ok(())
        })?;
        if newer {
            let message = "an entry that the provider lacks is newer than the contextCSN of the database";
            return Err(Error::new(Code::Unproven, message));
        }
        Ok(())
    }

    fn note(&self, id: u64, value: &[u8], local: &mut Local) -> Result<()> {
        match self.of(value)? {
            LocalState::Changed(uuid) => {
                require_single(uuid, local.changed.insert(uuid, id).is_none())?;
            }
            LocalState::Deleted(uuid) => {
                require_single(uuid, local.deleted.insert(uuid))?;
                local.gone.push(id);
            }
            LocalState::Absent => local.gone.push(id),
            LocalState::Unchanged => {}
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

    /// Returns `None` if the index cannot answer.
    fn by_index(&self, task: &RefreshContext<'_>, index: &Index) -> Result<Option<Local>> {
        let mut uuids: Vec<Uuid> = self.arrived.keys().copied().collect();
        uuids.extend(&self.gone);
        let mut wanted = uuids.iter().map(|uuid| index.key(task, *uuid)).collect::<Result<Vec<_>>>()?;
        wanted.sort_unstable();
        wanted.dedup();
        let (all, vague) = (Mutex::new(Local::default()), Mutex::new(false));
        let parts: Vec<&[Vec<u8>]> = wanted.chunks(1024).collect();
        side_by_side(task.reader, READERS, parts.len(), |reader, turns| {
            for at in turns.iter() {
                let (mut local, answer) = (Local::default(), self.part(reader, index, parts[at]));
                match answer? {
                    None => *lock(&vague) = true,
                    Some(found) => local = found,
                }
                lock(&all).absorb(local)?;
            }
            Ok(())
        })?;
        let local = std::mem::take(&mut *lock(&all));
        Ok((!*lock(&vague)).then_some(local))
    }

    fn part(&self, reader: &Reader, index: &Index, keys: &[Vec<u8>]) -> Result<Option<Local>> {
        let mut local = Local::default();
        let [table, id2e, dn2i] = [index.name.as_bytes(), b"id2e", b"dn2i"].map(|name| reader.table(name));
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
                    dn2i.get(&key)?; // only so that the caller, a single thread, finds it in the page cache
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

/// The equality index of entryUUID.
#[derive(Debug)]
struct Index {
    name: String,
    at: usize,
}

/// Returns `None` if there is no equality index, or if it lacks entries.
fn index(task: &RefreshContext<'_>) -> Option<Index> {
    let column = task.shared.columns.column(b"entryUUID").ok()?;
    let own = column.indexers.iter().find(|one| one.equality.is_some() && !one.presence)?;
    let (at, database) = (own.table, task.database);
    let (table, name) = (database.index_tables[at], database.indexes.tables[at].name.clone());
    (table.record().entries >= database.entries).then_some(Index { name, at })
}

impl Index {
    fn key(&self, task: &RefreshContext<'_>, uuid: Uuid) -> Result<Vec<u8>> {
        let column = task.shared.columns.column(b"entryUUID").with_code(Code::Schema)?;
        let (bytes, mut found) = (uuid.to_be_bytes(), IndexKeys::default());
        for indexer in column.indexers.iter().filter(|one| one.table == self.at) {
            let values = std::iter::once(bytes.as_slice());
            indexer.each(task.shared.settings, values, &[], &mut found).with_code(Code::Schema)?;
        }
        let key = found.0.first().map(|(_, key)| key.as_bytes().to_vec());
        key.ok_or_else(|| Error::new(Code::Damaged, "an entryUUID without an index key"))
    }
}
