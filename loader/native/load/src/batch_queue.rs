//! The queue of batches between the reader and the connections, with the dependencies between batches.
//!
//! A batch depends on an earlier unsettled batch that contains, for any of its own entries, the parent, an entry that
//! the entry names, or an entry with the same DN. Connections take batches in order, and a batch never waits for a
//! later batch, so there is no deadlock.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use common::lock;
use rustc_hash::FxHashMap;

use crate::entry::Entry;

/// Interval at which a waiting thread checks whether the load was cancelled.
const PATIENCE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub struct Batch {
    pub number: u64,
    pub entries: Vec<Entry>,
    /// Numbers of the batches on which this batch depends.
    pub after: BTreeSet<u64>,
}

#[derive(Debug)]
pub struct BatchQueue {
    state: Mutex<State>,
    changed: Condvar,
    most_waiting: usize,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Batch>,
    /// Numbers of the batches that are waiting or being added.
    unsettled: BTreeSet<u64>,
    /// Settled batches with an entry that is not on the server. Each is mapped to the number of the first batch that
    /// cannot depend on it, and is removed when all batches before that number are settled.
    incomplete: BTreeMap<u64, u64>,
    /// Maps the hash of a DN to the number of the last unsettled batch that has an entry with this DN.
    names: FxHashMap<u128, u64>,
    next: u64,
    ended: bool,
    stopped: bool,
}

impl BatchQueue {
    pub fn new(most_waiting: usize) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), most_waiting }
    }

    /// Waits until the queue has room, and appends a batch. Returns false if the load was stopped or cancelled.
    pub fn put(&self, entries: Vec<Entry>, cancelled: impl Fn() -> bool) -> bool {
        let mut state = lock(&self.state);
        while state.waiting.len() >= self.most_waiting && !state.stopped {
            if cancelled() {
                return false;
            }
            state = self.wait(state);
        }
        if state.stopped {
            return false;
        }
        state.put(entries);
        self.changed.notify_all();
        true
    }

    /// Reopens an ended queue for the second pass.
    pub fn reopen(&self) {
        lock(&self.state).ended = false;
    }

    /// After this call, [`Self::take`] returns None once the queue is empty.
    pub fn end(&self) {
        lock(&self.state).ended = true;
        self.changed.notify_all();
    }

    /// Wakes all waiting threads. After this call, no batch is put or taken.
    pub fn stop(&self) {
        lock(&self.state).stopped = true;
        self.changed.notify_all();
    }

    pub fn is_stopped(&self) -> bool {
        lock(&self.state).stopped
    }

    /// Waits for the next batch. Returns None if the queue has ended, or if the load was stopped or cancelled.
    pub fn take(&self, cancelled: impl Fn() -> bool) -> Option<Batch> {
        let mut state = lock(&self.state);
        loop {
            if state.stopped || cancelled() {
                return None;
            }
            if let Some(batch) = state.waiting.pop_front() {
                self.changed.notify_all();
                return Some(batch);
            }
            if state.ended {
                return None;
            }
            state = self.wait(state);
        }
    }

    /// Waits until all batches in `after` are settled. Returns whether any of them has an entry that is not on the
    /// server, or None if the load was stopped or cancelled.
    pub fn wait_for(&self, after: &BTreeSet<u64>, cancelled: impl Fn() -> bool) -> Option<bool> {
        let mut state = lock(&self.state);
        loop {
            if state.stopped || cancelled() {
                return None;
            }
            if after.iter().all(|number| !state.unsettled.contains(number)) {
                return Some(after.iter().any(|number| state.incomplete.contains_key(number)));
            }
            state = self.wait(state);
        }
    }

    /// Marks a batch as settled. `incomplete` says whether one of its entries is not on the server.
    pub fn settle(&self, batch: &Batch, incomplete: bool) {
        let mut state = lock(&self.state);
        state.unsettled.remove(&batch.number);
        for entry in &batch.entries {
            if state.names.get(&entry.name) == Some(&batch.number) {
                state.names.remove(&entry.name);
            }
        }
        if incomplete {
            let next = state.next;
            state.incomplete.insert(batch.number, next);
        }
        let oldest = state.unsettled.first().copied().unwrap_or(u64::MAX);
        state.incomplete.retain(|_, next| oldest < *next);
        self.changed.notify_all();
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, PATIENCE).unwrap_or_else(PoisonError::into_inner).0
    }
}

impl State {
    fn put(&mut self, entries: Vec<Entry>) {
        let number = self.next;
        self.next += 1;
        let mut after = BTreeSet::new();
        for entry in &entries {
            let names = [entry.name, entry.parent];
            let names = names.iter().chain(&entry.references);
            after.extend(names.filter_map(|name| self.names.get(name).copied()));
        }
        self.names.extend(entries.iter().map(|entry| (entry.name, number)));
        self.unsettled.insert(number);
        self.waiting.push_back(Batch { number, entries, after });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(dn: &str) -> Entry {
        Entry::new(0, None, 1, format!("dn: {dn}\nsn: x\n").as_bytes()).unwrap()
    }

    fn queue(batches: &[&[&str]]) -> (BatchQueue, Vec<Batch>) {
        let queue = BatchQueue::new(9);
        for names in batches {
            assert!(queue.put(names.iter().map(|dn| entry(dn)).collect(), || false));
        }
        let queued = (0..batches.len()).map(|_| queue.take(|| false).unwrap()).collect();
        (queue, queued)
    }

    #[test]
    fn an_entry_waits_for_its_parent_and_for_the_same_dn() {
        let (queue, batches) =
            queue(&[&["ou=a,dc=x", "ou=b,dc=x"], &["cn=1,OU=a,dc=x"], &["cn=2,ou=c,dc=x"], &["ou=b,dc=x"]]);
        let after: Vec<Vec<u64>> = batches.iter().map(|one| one.after.iter().copied().collect()).collect();
        assert_eq!(after, [vec![], vec![0], vec![], vec![0]]);
        assert_eq!(queue.wait_for(&batches[2].after, || false), Some(false));
        assert_eq!(queue.wait_for(&batches[1].after, || true), None);
        queue.settle(&batches[0], true);
        assert_eq!(queue.wait_for(&batches[1].after, || false), Some(true));
    }

    #[test]
    fn an_entry_waits_for_the_entries_it_names() {
        let queue = BatchQueue::new(9);
        assert!(queue.put(vec![entry("cn=1,dc=x")], || false));
        assert!(queue.put(vec![entry("cn=2,dc=x")], || false));
        let references = vec![entry("cn=1,dc=x").name];
        assert!(queue.put(vec![Entry { references, ..entry("cn=3,dc=x") }], || false));
        let after: Vec<_> = (0..3).map(|_| queue.take(|| false).unwrap().after).collect();
        assert_eq!(after, [BTreeSet::new(), BTreeSet::new(), BTreeSet::from([0])]);
    }

    #[test]
    fn no_batch_waits_for_a_settled_batch() {
        let (queue, batches) = queue(&[&["ou=a,dc=x"]]);
        queue.settle(&batches[0], false);
        assert!(queue.put(vec![entry("cn=1,ou=a,dc=x")], || false));
        assert!(queue.take(|| false).unwrap().after.is_empty());
    }

    #[test]
    fn a_stopped_queue_accepts_and_returns_no_batch() {
        let (queue, batches) = queue(&[&["ou=a,dc=x"], &["cn=1,ou=a,dc=x"]]);
        queue.stop();
        assert_eq!(queue.wait_for(&batches[1].after, || false), None);
        assert!(queue.take(|| false).is_none());
        assert!(!queue.put(Vec::new(), || false));
    }
}
