//! A batch in a connection's hands: what is sent for each entry, and what has become of it.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

use common::Result;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::batch_queue::Batch;
use crate::entry::{Entry, Prepared};
use crate::journal::Kind;
use crate::shared::Shared;

/// What is known about one entry.
#[derive(Debug, Clone, Copy, Default)]
pub struct EntryState {
    /// It may be on the server already, for an answer was lost.
    pub uncertain: bool,
    /// To be looked for on the server before it is sent again.
    pub look: bool,
    /// How often it was looked for, and was not to be seen.
    pub looks: u8,
    /// To be added by itself, outside a transaction.
    pub alone: bool,
}

#[derive(Debug)]
pub struct BatchWork<'a> {
    shared: &'a Shared<'a>,
    pub batch: Batch,
    pub prepared: Vec<Prepared>,
    pub marks: Vec<EntryState>,
    /// Entries still to be settled, in the order of the input.
    pub todo: VecDeque<usize>,
    /// Entries a transaction takes for now.
    pub size: usize,
    /// Connections in a row that broke at once while these entries were sent.
    pub breaks: usize,
    pub sending: usize,
    pub troubled: bool,
    /// Entries that were there already.
    pub there: usize,
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
                ..EntryState::default()
            }
        };
        Ok(Self {
            shared,
            marks: batch.entries.iter().map(mark).collect(),
            todo: (0..batch.entries.len()).collect(),
            size: batch.entries.len(),
            batch,
            prepared,
            breaks: 0,
            sending: 0,
            troubled: false,
            there: 0,
            settled: Vec::new(),
            fates: 0,
        })
    }

    pub fn entry(&self, at: usize) -> &Entry {
        &self.batch.entries[at]
    }

    /// The first entries that are still to be settled.
    pub fn first(&self, most: usize) -> Vec<usize> {
        self.todo.iter().copied().take(most.max(1)).collect()
    }

    /// Those of the first entries that may go in one transaction: known descriptions, no DN twice.
    pub fn fit(&self, most: usize) -> Vec<usize> {
        let mut names = FxHashSet::default();
        let fits = |at: &usize| {
            !self.marks[*at].alone
                && self.shared.all_descriptions_added(&self.prepared[*at].descriptions)
                && names.insert(self.entry(*at).name)
        };
        self.todo.iter().copied().take(most.max(1)).take_while(fits).collect()
    }

    /// Requests for some entries, each with the place of its parent among them.
    pub fn adds(&self, list: &[usize]) -> Vec<(&[u8], Option<usize>)> {
        let mut places = FxHashMap::default();
        let request = |(place, &at): (usize, &usize)| {
            let entry = self.entry(at);
            let parent = places.get(&entry.parent).copied();
            places.insert(entry.name, place);
            (self.prepared[at].operation.as_slice(), parent)
        };
        list.iter().enumerate().map(request).collect()
    }

    /// Entries whose parent is not known to be there, nor among `list`, nor in a batch that is waited for.
    pub fn without_parent(&self, list: &[usize]) -> Vec<usize> {
        let mut names = FxHashSet::default();
        let is_open = |at: &usize| {
            let entry = self.entry(*at);
            names.insert(entry.name);
            !names.contains(&entry.parent) && !self.shared.has_parent(entry)
        };
        list.iter().copied().filter(is_open).collect()
    }

    /// Where one is there already, others are, as a rule.
    pub fn look_for_all(&mut self) {
        for &at in &self.todo {
            self.marks[at].look |= self.marks[at].looks == 0;
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

    /// Its parent is not there: put aside for later, or rejected when this is later.
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

    /// Writes down what was settled.
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
