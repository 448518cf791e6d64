//! Batches on their way from the reader to the connections, and who must wait for whom.
//!
//! A batch depends on the earlier ones that hold a parent of its entries, or an entry of the same DN, and are not
//! settled. Earlier ones are taken first and never wait for later ones, so somebody can always go on.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use common::lock;
use rustc_hash::FxHashMap;

use crate::entry::Entry;

/// How long a wait may overlook that the load was cancelled.
const PATIENCE: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub struct Batch {
    pub number: u64,
    pub entries: Vec<Entry>,
    /// Numbers of batches to wait for.
    pub after: BTreeSet<u64>,
}

#[derive(Debug)]
pub struct BatchQueue {
    state: Mutex<State>,
    changed: Condvar,
    /// Batches that may wait to be taken.
    room: usize,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Batch>,
    /// Not settled.
    open: BTreeSet<u64>,
    /// Settled, but some of their entries are not on the server. With the number of the first batch that cannot
    /// depend on it; kept until all before that are settled.
    troubled: BTreeMap<u64, u64>,
    /// DN's hash -> the last open batch with such an entry.
    names: FxHashMap<u128, u64>,
    next: u64,
    ended: bool,
    stopped: bool,
}

impl BatchQueue {
    pub fn new(room: usize) -> Self {
        Self { state: Mutex::default(), changed: Condvar::new(), room }
    }

    /// Hands over entries once there is room; false when nobody wants them any more.
    pub fn put(&self, entries: Vec<Entry>, cancelled: impl Fn() -> bool) -> bool {
        let mut state = lock(&self.state);
        while state.waiting.len() >= self.room && !state.stopped {
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

    /// Another pass begins.
    pub fn begin(&self) {
        lock(&self.state).ended = false;
    }

    /// No more batches will come.
    pub fn end(&self) {
        lock(&self.state).ended = true;
        self.changed.notify_all();
    }

    /// Nobody shall go on.
    pub fn stop(&self) {
        lock(&self.state).stopped = true;
        self.changed.notify_all();
    }

    pub fn is_stopped(&self) -> bool {
        lock(&self.state).stopped
    }

    /// The next batch; `None` when there are no more.
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

    /// Waits until all of `after` are settled. `Some(true)`: one of them left entries out; `None`: stopped.
    pub fn wait_for(&self, after: &BTreeSet<u64>, cancelled: impl Fn() -> bool) -> Option<bool> {
        let mut state = lock(&self.state);
        loop {
            if state.stopped || cancelled() {
                return None;
            }
            if after.iter().all(|number| !state.open.contains(number)) {
                return Some(after.iter().any(|number| state.troubled.contains_key(number)));
            }
            state = self.wait(state);
        }
    }

    /// The batch is done; `troubled`: some of its entries are not on the server.
    pub fn settle(&self, batch: &Batch, troubled: bool) {
        let mut state = lock(&self.state);
        state.open.remove(&batch.number);
        for entry in &batch.entries {
            if state.names.get(&entry.name) == Some(&batch.number) {
                state.names.remove(&entry.name);
            }
        }
        if troubled {
            let next = state.next;
            state.troubled.insert(batch.number, next);
        }
        let oldest = state.open.first().copied().unwrap_or(u64::MAX);
        state.troubled.retain(|_, next| oldest < *next);
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
        let before =
            |entry: &Entry| [entry.name, entry.parent].map(|name| self.names.get(&name).copied());
        let after = entries.iter().flat_map(before).flatten().collect();
        self.names.extend(entries.iter().map(|entry| (entry.name, number)));
        self.open.insert(number);
        self.waiting.push_back(Batch { number, entries, after });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(dn: &str) -> Entry {
        Entry::new(0, None, 1, format!("dn: {dn}\nsn: x\n").as_bytes()).unwrap()
    }

    fn board(batches: &[&[&str]]) -> (BatchQueue, Vec<Batch>) {
        let board = BatchQueue::new(9);
        for names in batches {
            assert!(board.put(names.iter().map(|dn| entry(dn)).collect(), || false));
        }
        let taken = (0..batches.len()).map(|_| board.take(|| false).unwrap()).collect();
        (board, taken)
    }

    #[test]
    fn a_child_waits_for_its_parent_and_a_dn_for_itself() {
        let (board, batches) = board(&[
            &["ou=a,dc=x", "ou=b,dc=x"],
            &["cn=1,OU=a,dc=x"],
            &["cn=2,ou=c,dc=x"],
            &["ou=b,dc=x"],
        ]);
        let after: Vec<Vec<u64>> =
            batches.iter().map(|one| one.after.iter().copied().collect()).collect();
        assert_eq!(after, [vec![], vec![0], vec![], vec![0]]);
        assert_eq!(board.wait_for(&batches[2].after, || false), Some(false));
        assert_eq!(board.wait_for(&batches[1].after, || true), None);
        board.settle(&batches[0], true);
        assert_eq!(board.wait_for(&batches[1].after, || false), Some(true));
    }

    #[test]
    fn nobody_waits_for_what_is_settled() {
        let (board, batches) = board(&[&["ou=a,dc=x"]]);
        board.settle(&batches[0], false);
        assert!(board.put(vec![entry("cn=1,ou=a,dc=x")], || false));
        assert!(board.take(|| false).unwrap().after.is_empty());
    }

    #[test]
    fn once_stopped_nothing_goes_on() {
        let (board, batches) = board(&[&["ou=a,dc=x"], &["cn=1,ou=a,dc=x"]]);
        board.stop();
        assert_eq!(board.wait_for(&batches[1].after, || false), None);
        assert!(board.take(|| false).is_none());
        assert!(!board.put(Vec::new(), || false));
    }
}
