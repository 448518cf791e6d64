//! Checks before a transaction that the parents of its entries exist, because a missing parent aborts the transaction.

use rustc_hash::FxHashSet;
use wire::Result;

use super::Worker;
use crate::entry_requests::EntryReads;
use crate::work::BatchWork;

impl Worker<'_> {
    /// Defers entries whose parents are missing. Returns true if the entries of the transaction must be chosen again.
    pub(super) fn defer_entries_without_parent(&mut self, work: &mut BatchWork<'_>, list: &[usize]) -> Result<bool> {
        let candidates = work.without_parent(list);
        if candidates.is_empty() {
            return Ok(false);
        }
        if self.wait(work).is_none() {
            return Ok(true);
        }
        self.find_orphans(work, &candidates)
    }

    /// Defers entries like [`Self::defer_entries_without_parent`], but also looks up parents that are known to exist.
    /// Necessary if a batch on which this batch depends has an entry that is not on the server.
    pub(super) fn has_orphans(&mut self, work: &mut BatchWork<'_>, list: &[usize]) -> Result<bool> {
        for &at in list {
            self.shared.forget_parent(work.entry(at).parent);
        }
        let candidates = work.without_parent(list);
        self.find_orphans(work, &candidates)
    }

    /// Looks up the parents of the candidates. Defers the entries whose parents are missing; in the second pass, marks
    /// them to be added outside of transactions. Returns whether any parent is missing.
    fn find_orphans(&mut self, work: &mut BatchWork<'_>, candidates: &[usize]) -> Result<bool> {
        let mut seen = FxHashSet::default();
        let first: Vec<usize> = candidates.iter().copied().filter(|&at| seen.insert(work.entry(at).parent)).collect();
        let dns = first.iter().map(|&at| tree::name::parent_text(&work.entry(at).dn)).collect();
        let mut reads = EntryReads::new(dns);
        self.exchange()?.pipeline(&mut reads)?;
        let parents = reads.entries;
        let mut missing = FxHashSet::default();
        for (&at, entry) in first.iter().zip(parents) {
            let parent = work.entry(at).parent;
            if entry.is_some() {
                self.shared.remember_parent(parent);
            } else {
                missing.insert(parent);
            }
        }
        let is_orphan = |at: &usize| missing.contains(&work.entry(*at).parent);
        let orphans: Vec<usize> = candidates.iter().copied().filter(is_orphan).collect();
        for &at in &orphans {
            if self.shared.is_last_pass() {
                // The response to the entry's own add is reported as the reason.
                work.states[at].outside = true;
            } else {
                work.orphan(at, String::new)?;
            }
        }
        Ok(!orphans.is_empty())
    }
}
