//! A batch that a connection is adding, with the request and the state of each entry.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

use common::Result;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::batch_queue::Batch;
use crate::entry::{Entry, Prepared};
use crate::journal::Kind;
use crate::shared::Shared;

#[derive(Debug, Clone, Copy, Default)]
pub struct EntryState {
    /// Whether the entry may already be on the server: a response was lost, or an earlier run may have sent the entry.
    pub uncertain: bool,
    /// Whether the entry must be looked up on the server before it is sent.
    pub needs_lookup: bool,
    /// Number of lookups since the last add of the entry. None of them found the entry.
    pub lookups: u8,
    /// Whether the entry must be added outside of transactions.
    pub outside: bool,
}

impl EntryState {
    /// Records that the response to the entry's add was lost: the server may have added the entry, or may still add it.
    pub const fn lost(&mut self) {
        (self.uncertain, self.needs_lookup, self.lookups) = (true, true, 0);
    }
}

pub struct BatchWork<'a> {
    shared: &'a Shared<'a>,
    pub batch: Batch,
    pub prepared: Vec<Prepared>,
    pub states: Vec<EntryState>,
    /// Indexes of the entries that are not yet settled, in the order of the input.
    pub unsettled: VecDeque<usize>,
    /// Maximum number of entries in the next transaction.
    pub size: usize,
    /// Number of successive connections that broke without settling any entry of the batch.
    pub breaks: usize,
    /// Number of entries that the current step sends.
    pub sending: usize,
    /// Whether an entry of the batch was deferred or rejected.
    pub incomplete: bool,
    /// Number of entries that existed already.
    pub existing: usize,
    /// The outcome and the position of each entry that is not yet in the journal.
    outcomes: Vec<(Kind, u64)>,
    /// Number of settled entries that the progress does not yet count.
    advance: u64,
}

impl<'a> BatchWork<'a> {
    pub fn new(shared: &'a Shared<'a>, batch: Batch) -> Result<Self> {
        let prepare = |entry: &Entry| {
            let suffix = shared.suffix_hash(entry);
            Prepared::new(entry, &shared.leave_out, suffix).map_err(|error| {
                let path = entry.path.as_deref().map(std::path::PathBuf::as_path);
                error.in_file(path).at(entry.line).of_entry(Some(&entry.dn))
            })
        };
        let prepared = batch.entries.iter().map(prepare).collect::<Result<Vec<_>>>()?;
        let state = |entry: &Entry| {
            let uncertain = shared.is_uncertain(entry);
            EntryState {
                uncertain,
                needs_lookup: uncertain || shared.look_first.load(Relaxed),
                outside: shared.is_never_in_transaction(entry),
                ..EntryState::default()
            }
        };
        Ok(Self {
            shared,
            states: batch.entries.iter().map(state).collect(),
            unsettled: (0..batch.entries.len()).collect(),
            size: batch.entries.len(),
            batch,
            prepared,
            breaks: 0,
            sending: 0,
            incomplete: false,
            existing: 0,
            outcomes: Vec::new(),
            advance: 0,
        })
    }

    pub fn entry(&self, at: usize) -> &Entry {
        &self.batch.entries[at]
    }

    /// Returns the first `most` unsettled entries.
    pub fn first(&self, most: usize) -> Vec<usize> {
        self.unsettled.iter().copied().take(most.max(1)).collect()
    }

    /// Returns the next unsettled entries for a transaction, `most` at most. The list ends before an entry that must be
    /// added outside of transactions, has a new attribute description, or has the same DN as an entry in the list.
    pub fn fit(&self, most: usize) -> Vec<usize> {
        let mut names = FxHashSet::default();
        let fits = |at: &usize| {
            !self.states[*at].outside
                && self.shared.all_descriptions_added(&self.prepared[*at].descriptions)
                && names.insert(self.entry(*at).name)
        };
        self.unsettled.iter().copied().take(most.max(1)).take_while(fits).collect()
    }

    /// Returns the first entry of `list`, and the entries directly after it that must be added outside of transactions.
    pub fn outside(&self, list: &[usize]) -> Vec<usize> {
        let others = list.iter().skip(1).take_while(|at| self.states[**at].outside);
        list.iter().take(1).chain(others).copied().collect()
    }

    /// Returns the add request of each entry in `list`, with the indexes of earlier elements of `list` on which the
    /// entry depends: its parent, and the entries that it names.
    pub fn adds(&self, list: &[usize]) -> Vec<(&[u8], Vec<usize>)> {
        let mut indexes = FxHashMap::default();
        let request = |(index, &at): (usize, &usize)| {
            let entry = self.entry(at);
            let names = std::iter::once(&entry.parent).chain(&entry.references);
            let after = names.filter_map(|name| indexes.get(name).copied()).collect();
            indexes.insert(entry.name, index);
            (self.prepared[at].operation.as_slice(), after)
        };
        list.iter().enumerate().map(request).collect()
    }

    /// Returns the entries of `list` whose parent neither comes before them in `list` nor is known to exist.
    pub fn without_parent(&self, list: &[usize]) -> Vec<usize> {
        let mut names = FxHashSet::default();
        let lacks_parent = |at: &usize| {
            let entry = self.entry(*at);
            names.insert(entry.name);
            !names.contains(&entry.parent) && !self.shared.has_parent(entry)
        };
        list.iter().copied().filter(lacks_parent).collect()
    }

    /// Marks all unsettled entries for a lookup: if one entry exists already, others usually do.
    pub fn look_up_all(&mut self) {
        for &at in &self.unsettled {
            self.states[at].needs_lookup |= self.states[at].lookups == 0;
        }
    }

    pub fn settle(&mut self, at: usize, kind: Kind) {
        self.outcomes.push((kind, self.entry(at).position));
        self.shared.tally.left_out.fetch_add(self.prepared[at].left_out, Relaxed);
        self.done(at);
    }

    pub fn reject(&mut self, at: usize, reason: String, orphan: bool) {
        self.shared.reject(self.entry(at), reason, orphan);
        self.incomplete = true;
        self.done(at);
    }

    /// Handles an entry whose parent does not exist: the first pass defers it, the second pass rejects it.
    pub fn orphan(&mut self, at: usize, reason: impl FnOnce() -> String) -> Result<()> {
        if self.shared.is_last_pass() {
            self.reject(at, reason(), true);
            return Ok(());
        }
        self.shared.defer(self.entry(at))?;
        self.incomplete = true;
        self.done(at);
        Ok(())
    }

    fn done(&mut self, at: usize) {
        self.unsettled.retain(|index| *index != at);
        self.advance += 1;
        self.breaks = 0;
    }

    /// Writes the outcomes to the journal, and advances the progress.
    pub fn record(&mut self) -> Result<()> {
        let outcomes = std::mem::take(&mut self.outcomes);
        for kind in Kind::ALL {
            let of_kind = outcomes.iter().filter(|(other, _)| *other == kind);
            let mut positions: Vec<u64> = of_kind.map(|(_, position)| *position).collect();
            positions.sort_unstable();
            if !positions.is_empty() {
                self.shared.journal.settle(kind, &positions)?;
            }
        }
        self.shared.counters.advance(std::mem::take(&mut self.advance));
        Ok(())
    }
}
