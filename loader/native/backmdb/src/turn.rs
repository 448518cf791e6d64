//! What must happen in the order of the input, although workers run side by side.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::lock;

/// So many chunks may be done while one before them is not: their results wait in memory.
const AHEAD: u64 = 16;

/// A value that chunk after chunk may take, change and pass on.
#[derive(Debug)]
pub struct Turn<T> {
    state: Mutex<State<T>>,
    passed: Condvar,
}

#[derive(Debug)]
struct State<T> {
    /// All chunks before this one have passed.
    next: u64,
    /// Those behind it that have passed too.
    early: BTreeSet<u64>,
    abandoned: bool,
    value: T,
}

/// The value was not passed on: the worker that had it gave up.
#[derive(Debug, PartialEq, Eq)]
pub struct Abandoned;

impl<T> Turn<T> {
    pub fn new(value: T) -> Self {
        let state = State { next: 0, early: BTreeSet::new(), abandoned: false, value };
        Self { state: Mutex::new(state), passed: Condvar::new() }
    }

    /// Waits until all chunks before `number` have passed, then changes the value. The turn stays with `number`.
    pub fn with<R>(&self, number: u64, act: impl FnOnce(&mut T) -> R) -> Result<R, Abandoned> {
        self.wait(number).map(|mut state| act(&mut state.value))
    }

    /// Chunk `number` is done with it, be it before its turn. Waits only for those that are far behind.
    pub fn pass(&self, number: u64) -> Result<(), Abandoned> {
        let mut state = lock(&self.state);
        state.early.insert(number);
        let before = state.next;
        while state.early.first() == Some(&state.next) {
            state.early.pop_first();
            state.next += 1;
        }
        if state.next > before {
            self.passed.notify_all();
        }
        drop(state);
        self.wait(number.saturating_sub(AHEAD)).map(|_| ())
    }

    fn wait(&self, number: u64) -> Result<MutexGuard<'_, State<T>>, Abandoned> {
        let mut state = lock(&self.state);
        while state.next < number && !state.abandoned {
            state = self.passed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.abandoned { Err(Abandoned) } else { Ok(state) }
    }

    /// Nobody will wait any more.
    pub fn abandon(&self) {
        lock(&self.state).abandoned = true;
        self.passed.notify_all();
    }

    #[cfg(test)]
    fn into_inner(self) -> T {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_take_their_turn_whatever_the_order_of_threads() {
        let turn = Turn::new(Vec::new());
        std::thread::scope(|scope| {
            for number in (0..20u64).rev() {
                let turn = &turn;
                scope.spawn(move || {
                    turn.with(number, |seen| seen.push(number)).unwrap();
                    turn.pass(number).unwrap();
                });
            }
        });
        assert_eq!(turn.into_inner(), (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn who_passes_early_waits_only_for_those_far_behind() {
        let turn = Turn::new(());
        (1..=AHEAD).for_each(|number| turn.pass(number).unwrap());
        std::thread::scope(|scope| {
            let ahead = scope.spawn(|| turn.pass(AHEAD + 1));
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!ahead.is_finished());
            turn.pass(0).unwrap();
            assert_eq!(ahead.join().unwrap(), Ok(()));
        });
        assert_eq!(turn.with(AHEAD + 2, |()| 7), Ok(7));
    }

    #[test]
    fn an_abandoned_turn_lets_all_go() {
        let turn = Turn::new(0);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| turn.with(5, |_| ()));
            turn.abandon();
            assert_eq!(waiting.join().unwrap(), Err(Abandoned));
        });
    }
}
