//! A batch that a connection is adding: the request for each entry, and the state of the entry.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

use common::Result;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::batch_queue::Batch;
use crate::entry::{Entry, Prepared};
use crate::journal::Kind;
use crate::shared::Shared;

/// The state of one entry.
#[derive(Debug, Clone, Copy, Default)]
pub struct EntryState {
    /// Whether the entry may already be on the server: a response was lost, or an earlier run may have sent the entry.
    pub uncertain: bool,
    /// Whether the entry must be looked up on the server before it is sent.
    pub look: bool,
    /// How many lookups since the last add of the entry have not found it.
    pub looks: u8,
    /// Whether the entry must be added outside of a transaction.
    pub alone: bool,
}

impl EntryState {
    /// Records that the response to the entry's add was lost: the server may have added the entry, or may still add it.
    pub const fn lost(&mut self) {
        (self.uncertain, self.look, self.looks) = (true, true, 0);
    }
}

pub struct BatchWork<'a> {
    shared: &'a Shared<'a>,
    pub batch: Batch,
    pub prepared: Vec<Prepared>,
    pub states: Vec<EntryState>,
    /// Indexes of the entries that are not yet settled, in the order of the input.
    pub todo: VecDeque<usize>,
    /// Current number of entries per transaction.
    pub size: usize,
    /// Number of successive connections that broke before any of these entries was settled.
    pub breaks: usize,
    pub sending: usize,
    pub troubled: bool,
    /// Number of entries that existed already.
    pub existing: usize,
    settled: Vec<(Kind, u64)>,
    fates: u64,
}

impl<'a> BatchWork<'a> {
    pub fn new(shared: &'a Shared<'a>, batch: Batch) -> Result<Self> {
        let prepare = |entry: &Entry| {
            let context = shared.context(entry);
            Prepared::new(entry, &shared.leave_out, context).map_err(|error| located(error, entry))
        };
        let prepared = batch.entries.iter().map(prepare).collect::<Result<Vec<_>>>()?;
        let mark = |entry: &Entry| {
            let uncertain = shared.is_uncertain(entry);
            EntryState {
                uncertain,
                look: uncertain || shared.look_first.load(Relaxed),
                alone: shared.stays_outside(entry),
                ..EntryState::default()
            }
        };
        Ok(Self {
            shared,
            states: batch.entries.iter().map(mark).collect(),
            todo: (0..batch.entries.len()).collect(),
            size: batch.entries.len(),
            batch,
            prepared,
            breaks: 0,
            sending: 0,
            troubled: false,
            existing: 0,
            settled: Vec::new(),
            fates: 0,
        })
    }

    pub fn entry(&self, at: usize) -> &Entry {
        &self.batch.entries[at]
    }

    /// Returns up to `most` of the unsettled entries, from the first on.
    pub fn first(&self, most: usize) -> Vec<usize> {
        self.todo.iter().copied().take(most.max(1)).collect()
    }

    /// Returns the first unsettled entries that may share a transaction: all their attribute descriptions have been
    /// added before, and no DN occurs twice.
    pub fn fit(&self, most: usize) -> Vec<usize> {
        let mut names = FxHashSet::default();
        let fits = |at: &usize| {
            !self.states[*at].alone
                && self.shared.all_descriptions_added(&self.prepared[*at].descriptions)
                && names.insert(self.entry(*at).name)
        };
        self.todo.iter().copied().take(most.max(1)).take_while(fits).collect()
    }

    /// Returns the first of these entries, and those directly after it that must be added outside of a transaction too.
    pub fn outside(&self, list: &[usize]) -> Vec<usize> {
        let alone = list.iter().skip(1).take_while(|at| self.states[**at].alone);
        list.iter().take(1).chain(alone).copied().collect()
    }

    /// Returns the add requests of these entries. Each has the indexes in `list` of the entry's parent and of the
    /// entries that it names.
    pub fn adds(&self, list: &[usize]) -> Vec<(&[u8], Vec<usize>)> {
        let mut places = FxHashMap::default();
        let request = |(place, &at): (usize, &usize)| {
            let entry = self.entry(at);
            let names = std::iter::once(&entry.parent).chain(&entry.references);
            let after = names.filter_map(|name| places.get(name).copied()).collect();
            places.insert(entry.name, place);
            (self.prepared[at].operation.as_slice(), after)
        };
        list.iter().enumerate().map(request).collect()
    }

    /// Returns the entries whose parent is neither earlier in `list` nor known to exist.
    pub fn without_parent(&self, list: &[usize]) -> Vec<usize> {
        let mut names = FxHashSet::default();
        let is_open = |at: &usize| {
            let entry = self.entry(*at);
            names.insert(entry.name);
            !names.contains(&entry.parent) && !self.shared.has_parent(entry)
        };
        list.iter().copied().filter(is_open).collect()
    }

    /// Marks all unsettled entries for a lookup before they are sent: if one of them exists already, others usually do.
    pub fn look_for_all(&mut self) {
        for &at in &self.todo {
            self.states[at].look |= self.states[at].looks == 0;
        }
    }

    pub fn settle(&mut self, at: usize, kind: Kind) {
        self.settled.push((kind, self.entry(at).position));
        self.shared.tally.left_out.fetch_add(self.prepared[at].left_out, Relaxed);
        self.done(at);
    }

    pub fn reject(&mut self, at: usize, reason: String, orphan: bool) {
        self.shared.reject(self.entry(at), reason, orphan);
        self.troubled = true;
        self.done(at);
    }

    /// Handles an entry whose parent does not exist: the first pass defers it, the second pass rejects it.
    pub fn orphan(&mut self, at: usize, reason: impl FnOnce() -> String) -> Result<()> {
        if self.shared.is_last_pass() {
            self.reject(at, reason(), true);
            return Ok(());
        }
        self.shared.defer(self.entry(at))?;
        self.troubled = true;
        self.done(at);
        Ok(())
    }

    fn done(&mut self, at: usize) {
        self.todo.retain(|one| *one != at);
        self.fates += 1;
        self.breaks = 0;
    }

    /// Writes the settled entries to the journal.
    pub fn record(&mut self) -> Result<()> {
        let settled = std::mem::take(&mut self.settled);
        for kind in [Kind::Added, Kind::Present, Kind::Replaced] {
            let of_kind = settled.iter().filter(|(one, _)| *one == kind);
            let mut positions: Vec<u64> = of_kind.map(|(_, position)| *position).collect();
            positions.sort_unstable();
            if !positions.is_empty() {
                self.shared.journal.settle(kind, &positions)?;
            }
        }
        self.shared.counters.advance(std::mem::take(&mut self.fates));
        Ok(())
    }
}

fn located(error: common::Error, entry: &Entry) -> common::Error {
    let path = entry.path.as_deref().map(std::path::PathBuf::as_path);
    error.in_file(path).at(entry.line).of_entry(Some(&entry.dn))
}
