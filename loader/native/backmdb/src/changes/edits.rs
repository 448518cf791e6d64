//! Turns the provider's report into changes of the database, and applies them.

use std::collections::BTreeMap;

use common::WithCode;
use extsort::{KeySize, Postings, Sorted};
use lmdbfile::Reader;
use rustc_hash::FxHashMap;

use super::dn2id::{Dn2idChanges, NoParent, NodeAfter};
use super::incoming::{ReceivedEntries, receive, uuid_number, uuid_of};
use super::local::{Local, find, id_of};
use super::{ChangeCounts, Sink, SyncResult, Uuid, postings};
use crate::audit::indexes::ExpectedPostings;
use crate::audit::{EntryChecker, Finding, Kind};
use crate::encoded::Hash;
use crate::entry::Encoder;
use crate::naming;
use crate::shared::BuildContext;
use crate::verify::{Database, wrong};
use crate::{Code, Error, Result, damaged_entry};
use codec::id2e::{self, Attribute, StoredEntry, ValueList};

/// The inputs of a refresh.
pub struct RefreshContext<'a> {
    pub reader: &'a Reader,
    pub database: &'a Database<'a>,
    pub shared: &'a BuildContext<'a>,
    pub report: &'a SyncResult,
}

/// IDs by entry number; entries that arrived come first.
#[derive(Debug, Default)]
struct Ids(Vec<Option<u64>>);

impl Ids {
    fn of_position(&self, position: u32) -> Option<u64> {
        self.0.get(position as usize / 2).copied().flatten()
    }
}

/// The entry with contextCSN, if nothing else in it changed.
struct SuffixEntry {
    id: u64,
    value: Vec<u8>,
}

struct Refresh<'t, 'a> {
    task: &'t RefreshContext<'a>,
    uuid_number: u32,
    arrived: ReceivedEntries,
    local: Local,
    tree: Dn2idChanges<'t>,
    /// By number of the entry that arrived: its ID, and whether it is new.
    ids: Ids,
    new: Vec<bool>,
    done: ChangeCounts,
}

pub fn apply(task: &RefreshContext<'_>, sink: &mut impl Sink) -> Result<ChangeCounts> {
    let (shared, counters) = (task.shared, task.shared.counters);
    counters.begin("changes", 0);
    let size = |long| if long { KeySize::UpToEight } else { KeySize::Four };
    let sizes: Vec<_> = task.database.indexes.tables.iter().map(|table| size(table.long)).collect();
    let options = shared.options;
    let keys = Postings::new(&sizes, options.memory, &options.scratch, counters.flag());
    let mut encoder = Encoder::new(shared, keys.writer()).with_code(Code::Schema)?;
    let arrived = receive(shared, task.report, &mut encoder)?;
    drop(encoder);
    let uuid_number = uuid_number(shared)?;
    let local = find(task, &arrived.by_uuid, uuid_number)?;
    let tree = Dn2idChanges::new(task.database.dn2i, shared.schema, &shared.suffixes);
    let (ids, new, done) = (Ids::default(), Vec::new(), ChangeCounts::default());
    let mut work = Refresh { task, uuid_number, arrived, local, tree, ids, new, done };
    counters.begin("names", 0);
    work.names()?;
    if !work.done.unsettled.is_empty() {
        return Ok(work.done);
    }
    counters.begin("keys", 0);
    let root = work.root()?;
    work.old_keys(ExpectedPostings::new(keys.writer()), root.as_ref())?;
    let sorted = keys.finish(options.jobs)?;
    counters.begin("write", task.database.indexes.tables.len() as u64 + 3);
    work.write(root, &sorted, sink)
}

impl Refresh<'_, '_> {
    fn names(&mut self) -> Result<()> {
        let count = self.arrived.entries.len();
        self.ids.0 =
            (0..count).map(|number| self.local.changed.get(&self.arrived.entries[number].uuid).copied()).collect();
        for number in 0..count {
            if !self.arrived.is_live(number) {
                self.ids.0[number] = None;
            }
        }
        self.new = vec![false; count];
        let movers = self.take()?;
        self.keep_parents()?;
        self.place(movers)
    }

    /// Removes deleted and renamed entries from the tree. Returns the numbers of entries to be inserted.
    fn take(&mut self) -> Result<Vec<usize>> {
        let mut movers = Vec::new();
        for number in 0..self.arrived.entries.len() {
            if !self.arrived.is_live(number) {
                continue;
            }
            let Some(id) = self.ids.0[number] else {
                movers.push(number);
                continue;
            };
            let one = &self.arrived.entries[number];
            let hash = self.tree.old_hash(id)?;
            if hash != one.hash || self.tree.old(id)?.pretty != one.pretty {
                self.tree.remove(id)?;
                movers.push(number);
            }
        }
        for at in 0..self.local.gone.len() {
            self.tree.remove(self.local.gone[at])?;
        }
        self.take_below(&mut movers)?;
        Ok(movers)
    }

    /// Removes entries whose DN is unchanged but whose parent entry moved and gave its name to another.
    fn take_below(&mut self, movers: &mut Vec<usize>) -> Result<()> {
        for number in 0..self.arrived.entries.len() {
            let Some(id) = self.ids.0[number] else { continue };
            if self.tree.hangs(id)? {
                self.tree.remove(id)?;
                movers.push(number);
            }
        }
        Ok(())
    }

    /// Keeps deleted entries that still have subordinates: they were deleted after the subordinates were read, and
    /// syncrepl will report that.
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
            self.done.kept += kept;
            if kept == 0 {
                return Ok(());
            }
        }
    }

    /// Inserts entries, parents first; new entries get their IDs in this order.
    fn place(&mut self, movers: Vec<usize>) -> Result<()> {
        let last = self.task.database.id2e.last_key()?;
        let mut next = last.map_or(Ok(0), |key| id_of(&key))? + 1;
        let mut by_depth: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut depths: FxHashMap<u32, usize> = FxHashMap::default();
        for number in movers {
            let one = &self.arrived.entries[number];
            let depth = match depths.get(&one.parent) {
                Some(depth) => *depth,
                None => self.depth(one.parent)?,
            };
            depths.insert(one.parent, depth);
            by_depth.entry(if one.suffix { 0 } else { depth + 1 }).or_default().push(number);
        }
        for number in by_depth.into_values().flatten() {
            let (id, new) = self.ids.0[number].map_or((next, true), |id| (id, false));
            if self.settle(number, id)? {
                (self.ids.0[number], self.new[number]) = (Some(id), new);
                next += u64::from(new);
            }
        }
        Ok(())
    }

    fn depth(&self, parent: u32) -> Result<usize> {
        let (_, text) = &self.arrived.parents[parent as usize];
        let dn = self.task.shared.schema.dn(text);
        Ok(dn.with_code(Code::Schema)?.rdns.len())
    }

    /// Inserts the entry; if that fails, notes the entryUUIDs to ask the provider about.
    fn settle(&mut self, number: usize, id: u64) -> Result<bool> {
        let one = &self.arrived.entries[number];
        let (hash, text) = &self.arrived.parents[one.parent as usize];
        let parent = if one.suffix { Some(0) } else { self.tree.find(*hash, text)? };
        let Some(parent) = parent else {
            self.done.unsettled.push(one.uuid);
            return Ok(false);
        };
        let wanted = NodeAfter { id, parent, normal: &one.normal, pretty: &one.pretty };
        match self.tree.insert(&wanted)? {
            Ok(()) => return Ok(true),
            Err(NoParent::Below) => self.done.unsettled.push(one.uuid),
            Err(NoParent::Taken(other)) => {
                self.done.unsettled.push(one.uuid);
                self.done.unsettled.extend(self.uuid(other)?);
            }
        }
        Ok(false)
    }

    /// Returns the entryUUID of an entry that has an ID in the file or got one since.
    fn uuid(&self, id: u64) -> Result<Option<Uuid>> {
        if let Some(number) = self.ids.0.iter().position(|known| *known == Some(id)) {
            return Ok(Some(self.arrived.entries[number].uuid));
        }
        uuid_of(&self.old_value(id)?, self.uuid_number)
    }

    fn old_value(&self, id: u64) -> Result<Vec<u8>> {
        let value = self.task.database.id2e.get(&id.to_ne_bytes());
        let value = value?;
        value.ok_or_else(|| wrong(format!("entry {id} is not in id2e")))
    }

    /// Returns the suffix entry with the claimed contextCSN; `None` if the entry arrived with it, or if none is claimed.
    fn root(&mut self) -> Result<Option<SuffixEntry>> {
        if self.task.shared.options.claimed.as_ref().is_none_or(Vec::is_empty) {
            return Ok(None);
        }
        let suffixes = &self.task.shared.settings.suffixes;
        let missing = || wrong("the suffix entry is not in the database");
        let text = suffixes.first().ok_or_else(missing)?;
        let id = self.tree.find(hash_of(self.task.shared, text)?, text.as_bytes())?;
        let id = id.ok_or_else(missing)?;
        let arrived = self.arrived.entries.iter().enumerate();
        let mut suffix = arrived.filter(|(_, one)| one.suffix).map(|(number, _)| number);
        if suffix.any(|number| self.ids.0[number] == Some(id)) {
            return Ok(None);
        }
        let value = self.with_context(&self.old_value(id)?)?;
        Ok(Some(SuffixEntry { id, value }))
    }

    fn with_context(&self, value: &[u8]) -> Result<Vec<u8>> {
        let columns = &self.task.shared.columns;
        let column = columns.column(b"contextCSN").with_code(Code::Schema)?;
        let number = columns.assign_number(&column).with_code(Code::Schema)?;
        let claimed = self.task.shared.options.claimed.as_deref().unwrap_or_default();
        let parts = id2e::read(value).ok_or_else(damaged_entry)?;
        let values: ValueList<'_> = claimed.iter().map(String::as_bytes).collect();
        let count = u32::try_from(values.len()).unwrap_or(u32::MAX);
        let context = Attribute { number, count, values, ..Attribute::default() };
        Ok(id2e::write(&parts.with(context)))
    }

    /// Posts the former keys of entries; deleted entries get numbers after all others. slapd generated the keys from
    /// the stored normal forms, right or wrong. Fails if a key cannot be generated: the stored one is then unknown.
    fn old_keys(&mut self, mut posted: ExpectedPostings, root: Option<&SuffixEntry>) -> Result<()> {
        let (task, shared) = (self.task, self.task.shared);
        let texts = &task.database.texts;
        let judge = EntryChecker::new(shared.schema, shared.settings, &shared.columns, texts);
        let mut post = |number: usize, id: u64, value: &[u8]| -> Result<()> {
            let entry = StoredEntry::read(value).ok_or_else(damaged_entry)?;
            let mut found = None;
            let mut keys = posted.at(2 * number as u64);
            judge.entry(&entry, &Vec::new(), &mut keys, &mut |kind, finding| {
                if kind == Kind::NoKey {
                    found.get_or_insert(finding);
                }
            });
            posted.writer.finish_index()?;
            found.map_or(Ok(()), |finding| {
                let finding = Finding { id: Some(id), ..finding };
                Err(Error::new(Code::Unproven, finding.to_string()))
            })
        };
        for number in 0..self.arrived.entries.len() {
            if let Some(id) = self.ids.0[number].filter(|_| !self.new[number]) {
                post(number, id, &self.old_value(id)?)?;
            }
        }
        for at in 0..self.local.gone.len() {
            let id = self.local.gone[at];
            post(self.ids.0.len(), id, &self.old_value(id)?)?;
            self.ids.0.push(Some(id));
        }
        if let Some(root) = root {
            let number = self.ids.0.len();
            post(number, root.id, &self.old_value(root.id)?)?;
            let texts = shared.columns.numbered();
            let judge = EntryChecker::new(shared.schema, shared.settings, &shared.columns, &texts);
            let mut keys = posted.at(2 * number as u64 + 1);
            judge.entry(
                &StoredEntry::read(&root.value).ok_or_else(damaged_entry)?,
                &Vec::new(),
                &mut keys,
                &mut |_, _| {},
            );
            self.ids.0.push(Some(root.id));
        }
        posted.writer.finish_index()
    }

    fn write(mut self, root: Option<SuffixEntry>, sorted: &Sorted, sink: &mut impl Sink) -> Result<ChangeCounts> {
        self.count()?;
        self.descriptions(sink)?;
        self.values(root, sink)?;
        let counters = self.task.shared.counters;
        counters.advance(2);
        let database = self.task.database;
        for (at, table) in database.indexes.tables.iter().enumerate() {
            counters.check()?;
            sink.open(&table.name)?;
            let exponent = self.task.shared.settings.list_exponent;
            let id = |position| self.ids.of_position(position);
            let index = database.index_tables[at];
            postings::apply(sorted, at, &table.name, index, exponent, id, sink)?;
            counters.advance(1);
        }
        self.tree.write(sink)?;
        counters.advance(1);
        Ok(self.done)
    }

    fn count(&mut self) -> Result<()> {
        for number in 0..self.arrived.entries.len() {
            if self.ids.0[number].is_none() {
                continue;
            }
            if self.new[number] {
                self.done.added += 1;
            } else {
                self.done.modified += 1;
                let id = self.ids.0[number].unwrap_or_default();
                self.done.renamed += u64::from(self.tree.moved(id)?);
            }
        }
        self.done.deleted = self.local.gone.len() as u64;
        Ok(())
    }

    /// Writes the new attribute descriptions.
    fn descriptions(&self, sink: &mut impl Sink) -> Result<()> {
        sink.open("ad2i")?;
        let known = self.task.database.texts.len();
        for (number, text) in (1u32..).zip(self.task.shared.columns.numbered()).skip(known) {
            sink.put(&codec::ad2i::key(number), text.as_bytes())?;
        }
        Ok(())
    }

    /// Writes id2e in the order of IDs.
    fn values(&self, root: Option<SuffixEntry>, sink: &mut impl Sink) -> Result<()> {
        enum Change {
            Arrived(usize),
            Gone,
            Root(Vec<u8>),
        }
        let mut changes: BTreeMap<u64, Change> = BTreeMap::new();
        changes.extend(self.local.gone.iter().map(|id| (*id, Change::Gone)));
        changes.extend(root.map(|root| (root.id, Change::Root(root.value))));
        let arrived = 0..self.arrived.entries.len();
        let arrived = arrived.filter_map(|number| Some((self.ids.0[number]?, number)));
        changes.extend(arrived.map(|(id, number)| (id, Change::Arrived(number))));
        sink.open("id2e")?;
        for (id, change) in changes {
            let key = id.to_ne_bytes();
            match change {
                Change::Gone => sink.clear(&key)?,
                Change::Root(value) => sink.put(&key, &value)?,
                Change::Arrived(number) => sink.put(&key, &self.arrived.value(number)?)?,
            }
        }
        Ok(())
    }
}

/// Returns the hash of a suffix.
fn hash_of(shared: &BuildContext<'_>, text: &str) -> Result<Hash> {
    let dn = shared.schema.dn(text.as_bytes());
    let dn = dn.with_code(Code::Schema)?;
    Ok(naming::hash(crate::encoded::ROOT, &dn.normal()))
}
