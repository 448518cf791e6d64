//! Computes the changes of the database from the provider's report, and applies them.

use std::collections::BTreeMap;

use common::WithCode;
use extsort::Sorted;
use lmdbfile::Reader;
use rustc_hash::FxHashMap;

use super::dn2id::{Dn2idChanges, InsertRefusal, Node};
use super::incoming::{ReceivedEntries, receive, uuid_of};
use super::local::{Local, find, id_of};
use super::{ChangeCounts, Sink, SyncResult, Uuid, postings};
use crate::audit::indexes::ExpectedPostings;
use crate::audit::{EntryChecker, Finding, Kind};
use crate::entry::Encoder;
use crate::shared::BuildContext;
use crate::verify::{Database, wrong};
use crate::{Code, Error, Result, context, damaged_entry};
use codec::id2e::StoredEntry;

/// The inputs of a refresh.
pub struct RefreshContext<'a> {
    pub reader: &'a Reader,
    pub database: &'a Database<'a>,
    pub shared: &'a BuildContext<'a>,
    pub report: &'a SyncResult,
}

/// The suffix entry and its new value for id2e, if nothing but its contextCSN changes.
struct SuffixEntry {
    id: u64,
    value: Vec<u8>,
}

struct Refresh<'t, 'a> {
    task: &'t RefreshContext<'a>,
    uuid_number: u32,
    received: ReceivedEntries,
    local: Local,
    tree: Dn2idChanges<'t>,
    /// IDs by entry number. The received entries come first, then deleted entries and the suffix entry.
    ids: Vec<Option<u64>>,
    /// By number of a received entry: true if the database does not have the entry yet.
    new: Vec<bool>,
    counts: ChangeCounts,
}

pub fn apply(task: &RefreshContext<'_>, sink: &mut impl Sink) -> Result<ChangeCounts> {
    let (shared, counters) = (task.shared, task.shared.counters);
    counters.begin("changes", 0);
    let options = shared.options;
    let keys = task.database.indexes.postings(options.memory, &options.scratch, counters.flag());
    let mut encoder = Encoder::new(shared, keys.writer()).with_code(Code::Schema)?;
    let received = receive(shared, task.report, &mut encoder)?;
    drop(encoder);
    let uuid_number = shared.columns.number_of(b"entryUUID")?;
    let local = find(task, &received.by_uuid, uuid_number)?;
    let tree = Dn2idChanges::new(task.database.dn2i, shared.schema, &shared.suffixes);
    let (ids, new, counts) = (Vec::new(), Vec::new(), ChangeCounts::default());
    let mut refresh = Refresh { task, uuid_number, received, local, tree, ids, new, counts };
    counters.begin("names", 0);
    refresh.names()?;
    if !refresh.counts.unsettled.is_empty() {
        return Ok(refresh.counts);
    }
    counters.begin("keys", 0);
    let suffix = refresh.suffix_entry()?;
    refresh.old_keys(ExpectedPostings::new(keys.writer()), suffix.as_ref())?;
    let sorted = keys.finish(options.jobs)?;
    counters.begin("write", task.database.indexes.tables.len() as u64 + 3);
    refresh.write(suffix, &sorted, sink)
}

impl Refresh<'_, '_> {
    fn names(&mut self) -> Result<()> {
        for (number, entry) in self.received.entries.iter().enumerate() {
            let id = self.local.changed.get(&entry.uuid).filter(|_| self.received.is_live(number));
            self.ids.push(id.copied());
        }
        self.new = vec![false; self.ids.len()];
        let movers = self.remove()?;
        self.keep_parents()?;
        self.insert(movers)
    }

    /// Removes deleted and renamed entries from the tree. Returns the numbers of entries to be inserted.
    fn remove(&mut self) -> Result<Vec<usize>> {
        let mut movers = Vec::new();
        for (number, entry) in self.received.entries.iter().enumerate() {
            if !self.received.is_live(number) {
                continue;
            }
            let Some(id) = self.ids[number] else {
                movers.push(number);
                continue;
            };
            let hash = self.tree.old_hash(id)?;
            if hash != entry.hash || self.tree.old(id)?.pretty != entry.pretty {
                self.tree.remove(id)?;
                movers.push(number);
            }
        }
        for &id in &self.local.gone {
            self.tree.remove(id)?;
        }
        // An entry with an unchanged DN may still have to move: its parent was renamed, and another entry took over the
        // parent's DN.
        for (number, id) in self.ids.iter().enumerate() {
            let Some(id) = *id else { continue };
            if self.tree.is_cut_off(id)? {
                self.tree.remove(id)?;
                movers.push(number);
            }
        }
        Ok(movers)
    }

    /// Keeps deleted entries that have subordinates: the deletions happened after the subordinates were read, and
    /// syncrepl will report them.
    fn keep_parents(&mut self) -> Result<()> {
        loop {
            let (mut kept, mut gone) = (0, Vec::new());
            for id in std::mem::take(&mut self.local.gone) {
                if self.tree.count(id)? > 1 {
                    self.tree.restore(id)?;
                    kept += 1;
                } else {
                    gone.push(id);
                }
            }
            self.local.gone = gone;
            self.counts.kept += kept;
            if kept == 0 {
                return Ok(());
            }
        }
    }

    /// Inserts entries, parents first; new entries get their IDs in this order.
    fn insert(&mut self, movers: Vec<usize>) -> Result<()> {
        let last = self.task.database.id2e.last_key()?;
        let mut next = last.map_or(Ok(0), |key| id_of(&key))? + 1;
        let mut by_depth: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut depths: FxHashMap<u32, usize> = FxHashMap::default();
        for number in movers {
            let entry = &self.received.entries[number];
            let depth = match depths.get(&entry.parent) {
                Some(depth) => *depth,
                None => self.depth(entry.parent)?,
            };
            depths.insert(entry.parent, depth);
            by_depth.entry(if entry.suffix { 0 } else { depth + 1 }).or_default().push(number);
        }
        for number in by_depth.into_values().flatten() {
            let (id, new) = self.ids[number].map_or((next, true), |id| (id, false));
            if self.insert_entry(number, id)? {
                (self.ids[number], self.new[number]) = (Some(id), new);
                next += u64::from(new);
            }
        }
        Ok(())
    }

    /// Returns the number of RDNs in the DN of a parent.
    fn depth(&self, parent: u32) -> Result<usize> {
        let (_, text) = &self.received.parents[parent as usize];
        let dn = self.task.shared.schema.dn(text);
        Ok(dn.with_code(Code::Schema)?.rdns.len())
    }

    /// Inserts the entry's node. If that fails, notes the entryUUIDs that must be read again, and returns false.
    fn insert_entry(&mut self, number: usize, id: u64) -> Result<bool> {
        let entry = &self.received.entries[number];
        let (hash, text) = &self.received.parents[entry.parent as usize];
        let parent = if entry.suffix { Some(0) } else { self.tree.find(*hash, text)? };
        let refusal = match parent {
            None => InsertRefusal::NoPathToRoot,
            Some(parent) => {
                let node = Node { parent, normal: entry.normal.clone(), pretty: entry.pretty.clone() };
                match self.tree.insert(id, node)? {
                    Ok(()) => return Ok(true),
                    Err(refusal) => refusal,
                }
            }
        };
        self.counts.unsettled.push(entry.uuid);
        if let InsertRefusal::NameTaken(other) = refusal {
            self.counts.unsettled.extend(self.uuid(other)?);
        }
        Ok(false)
    }

    /// Returns the entryUUID of an entry that the file has, or that was inserted.
    fn uuid(&self, id: u64) -> Result<Option<Uuid>> {
        if let Some(number) = self.ids.iter().position(|own| *own == Some(id)) {
            return Ok(Some(self.received.entries[number].uuid));
        }
        uuid_of(&self.old_value(id)?, self.uuid_number)
    }

    fn old_value(&self, id: u64) -> Result<Vec<u8>> {
        let value = self.task.database.id2e.get(&id.to_ne_bytes())?;
        value.ok_or_else(|| wrong(format!("entry {id} is not in id2e")))
    }

    /// Returns the suffix entry with the claimed contextCSN. Returns `None` if no contextCSN is claimed, or if the
    /// entry was received with it.
    fn suffix_entry(&mut self) -> Result<Option<SuffixEntry>> {
        let shared = self.task.shared;
        let Some(claimed) = shared.options.claimed.as_ref().filter(|claimed| !claimed.is_empty()) else {
            return Ok(None);
        };
        let missing = || wrong("the suffix entry is not in the database");
        let (text, hash) = shared.settings.suffixes.first().zip(shared.suffixes.first()).ok_or_else(missing)?;
        let id = self.tree.find(hash, text.as_bytes())?.ok_or_else(missing)?;
        let mut received = self.received.entries.iter().zip(&self.ids);
        if received.any(|(entry, own)| entry.suffix && *own == Some(id)) {
            return Ok(None);
        }
        let number = shared.columns.number_of(b"contextCSN")?;
        let value = context::replaced(&self.old_value(id)?, number, claimed.iter().map(String::as_bytes))?;
        Ok(Some(SuffixEntry { id, value }))
    }

    /// Posts the old keys of changed and deleted entries. Entries are numbered in this order: received entries, deleted
    /// entries, the suffix entry. slapd generated the keys from the stored normal forms, even from wrong ones. Fails if
    /// a key cannot be generated, because the key in the index is then unknown.
    fn old_keys(&mut self, mut posted: ExpectedPostings, suffix: Option<&SuffixEntry>) -> Result<()> {
        let (task, shared) = (self.task, self.task.shared);
        let checker = EntryChecker::new(shared.schema, shared.settings, &shared.columns, &task.database.texts);
        let mut post = |number: usize, id: u64, value: &[u8]| -> Result<()> {
            let entry = StoredEntry::read(value).ok_or_else(damaged_entry)?;
            let mut no_key = None;
            let mut keys = posted.at(2 * number as u64);
            checker.entry(&entry, &Vec::new(), &mut keys, &mut |kind, finding| {
                if kind == Kind::NoKey {
                    no_key.get_or_insert(finding);
                }
            });
            posted.writer.finish_index()?;
            no_key.map_or(Ok(()), |finding| {
                let finding = Finding { id: Some(id), ..finding };
                Err(Error::new(Code::Unproven, finding.to_string()))
            })
        };
        for number in 0..self.received.entries.len() {
            if let Some(id) = self.ids[number].filter(|_| !self.new[number]) {
                post(number, id, &self.old_value(id)?)?;
            }
        }
        for &id in self.local.gone.iter().chain(suffix.map(|suffix| &suffix.id)) {
            post(self.ids.len(), id, &self.old_value(id)?)?;
            self.ids.push(Some(id));
        }
        if let Some(suffix) = suffix {
            let texts = shared.columns.numbered();
            let checker = EntryChecker::new(shared.schema, shared.settings, &shared.columns, &texts);
            let entry = StoredEntry::read(&suffix.value).ok_or_else(damaged_entry)?;
            let mut keys = posted.at(2 * self.ids.len() as u64 - 1);
            checker.entry(&entry, &Vec::new(), &mut keys, &mut |_, _| {});
        }
        posted.writer.finish_index()
    }

    fn write(mut self, suffix: Option<SuffixEntry>, sorted: &Sorted, sink: &mut impl Sink) -> Result<ChangeCounts> {
        self.count()?;
        self.descriptions(sink)?;
        self.values(suffix, sink)?;
        let counters = self.task.shared.counters;
        counters.advance(2);
        let database = self.task.database;
        for (at, table) in database.indexes.tables.iter().enumerate() {
            counters.check()?;
            sink.open(&table.name)?;
            let exponent = self.task.shared.settings.list_exponent;
            let id = |position: u32| self.ids.get(position as usize / 2).copied().flatten();
            let index = database.index_tables[at];
            postings::apply(sorted, at, &table.name, index, exponent, id, sink)?;
            counters.advance(1);
        }
        self.tree.write(sink)?;
        counters.advance(1);
        Ok(self.counts)
    }

    fn count(&mut self) -> Result<()> {
        for (id, new) in self.ids.iter().zip(&self.new) {
            let Some(id) = *id else { continue };
            if *new {
                self.counts.added += 1;
            } else {
                self.counts.modified += 1;
                self.counts.renamed += u64::from(self.tree.is_moved(id)?);
            }
        }
        self.counts.deleted = self.local.gone.len() as u64;
        Ok(())
    }

    /// Writes the new attribute descriptions to ad2i.
    fn descriptions(&self, sink: &mut impl Sink) -> Result<()> {
        sink.open("ad2i")?;
        let old = self.task.database.texts.len();
        for (number, text) in (1u32..).zip(self.task.shared.columns.numbered()).skip(old) {
            sink.put(&codec::ad2i::key(number), text.as_bytes())?;
        }
        Ok(())
    }

    /// Writes id2e in the order of IDs.
    fn values(&self, suffix: Option<SuffixEntry>, sink: &mut impl Sink) -> Result<()> {
        enum Change {
            Received(usize),
            Gone,
            Suffix(Vec<u8>),
        }
        let mut changes: BTreeMap<u64, Change> = BTreeMap::new();
        changes.extend(self.local.gone.iter().map(|id| (*id, Change::Gone)));
        changes.extend(suffix.map(|suffix| (suffix.id, Change::Suffix(suffix.value))));
        let received = 0..self.received.entries.len();
        changes.extend(received.filter_map(|number| Some((self.ids[number]?, Change::Received(number)))));
        sink.open("id2e")?;
        for (id, change) in changes {
            let key = id.to_ne_bytes();
            match change {
                Change::Gone => sink.clear(&key)?,
                Change::Suffix(value) => sink.put(&key, &value)?,
                Change::Received(number) => sink.put(&key, &self.received.value(number)?)?,
            }
        }
        Ok(())
    }
}
