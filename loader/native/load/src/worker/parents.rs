//! Checks before a transaction that the parents of its entries exist, because a single missing parent aborts it.

use rustc_hash::FxHashSet;
use wire::Result;

use super::Worker;
use crate::asks::EntryReads;
use crate::work::BatchWork;

impl Worker<'_> {
    /// Defers entries whose parents are missing. Returns true if the transaction must be composed again.
    pub(super) fn defer_entries_without_parent(&mut self, work: &mut BatchWork<'_>, list: &[usize]) -> Result<bool> {
        let open = work.without_parent(list);
        if open.is_empty() {
            return Ok(false);
        }
        if self.wait(work).is_none() {
            return Ok(true);
        }
        self.find_orphans(work, &open)
    }

    /// Checks all parents again, because an earlier batch did not load all of its entries.
    pub(super) fn has_orphans(&mut self, work: &mut BatchWork<'_>, list: &[usize]) -> Result<bool> {
        for &at in list {
            self.shared.forget_parent(work.entry(at).parent);
        }
        let open = work.without_parent(list);
        self.find_orphans(work, &open)
    }

    fn find_orphans(&mut self, work: &mut BatchWork<'_>, open: &[usize]) -> Result<bool> {
        let mut seen = FxHashSet::default();
        let first: Vec<usize> = open.iter().copied().filter(|&at| seen.insert(work.entry(at).parent)).collect();
        let names = first.iter().map(|&at| tree::name::parent_text(&work.entry(at).dn)).collect();
        let mut looks = EntryReads::new(names);
        self.exchange()?.pipeline(&mut looks)?;
        let found = looks.found;
        let mut missing = FxHashSet::default();
        for (&at, found) in first.iter().zip(found) {
            let parent = work.entry(at).parent;
            if found.is_some() {
                self.shared.remember_parent(parent);
            } else {
                missing.insert(parent);
            }
        }
        self.put_aside(work, open, &missing)
    }

    /// Defers the entries whose parents are missing; in the second pass, marks them to be added without a transaction.
    fn put_aside(&self, work: &mut BatchWork<'_>, open: &[usize], missing: &FxHashSet<u128>) -> Result<bool> {
        let orphans: Vec<usize> = open.iter().copied().filter(|&at| missing.contains(&work.entry(at).parent)).collect();
        for &at in &orphans {
            if self.shared.is_last_pass() {
                // The response to the entry's own add is reported as the reason.
                work.states[at].alone = true;
            } else {
                work.orphan(at, String::new)?;
            }
        }
        Ok(!orphans.is_empty())
    }
}
