//! Steps that must happen in the order of the parts, although workers run in parallel.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, PoisonError};

use crate::{GivenUp, lock};

/// Number of later parts that may pass while a part is unfinished. Bounded because their results wait in memory.
const AHEAD: u64 = 16;

/// A value that the parts change one after the other.
pub struct Turn<T> {
    state: Mutex<State>,
    passed: Condvar,
    /// Has its own lock, so that a thread that only calls `pass` does not wait while another thread uses the value.
    value: Mutex<T>,
}

#[derive(Debug)]
struct State {
    /// All parts before this one have passed.
    next: u64,
    /// Later parts that have passed already.
    early: BTreeSet<u64>,
    abandoned: bool,
}

impl<T> Turn<T> {
    pub const fn new(value: T) -> Self {
        let state = State { next: 0, early: BTreeSet::new(), abandoned: false };
        Self { state: Mutex::new(state), passed: Condvar::new(), value: Mutex::new(value) }
    }

    /// Waits until all parts before `number` have passed, then calls `act` with the value. The turn ends with
    /// [`Self::pass`].
    pub fn with<R>(&self, number: u64, act: impl FnOnce(&mut T) -> R) -> Result<R, GivenUp> {
        self.wait(number)?;
        Ok(act(&mut lock(&self.value)))
    }

    /// Ends the turn of part `number`, which need not have begun. Waits only if an earlier part is more than `AHEAD`
    /// parts behind.
    pub fn pass(&self, number: u64) -> Result<(), GivenUp> {
        let mut state = lock(&self.state);
        state.early.insert(number);
        let before = state.next;
        while state.early.first() == Some(&state.next) {
            state.early.pop_first();
            state.next += 1;
        }
        let moved = state.next > before;
        // Unlocks first, because the woken threads need the lock.
        drop(state);
        if moved {
            self.passed.notify_all();
        }
        self.wait(number.saturating_sub(AHEAD))
    }

    fn wait(&self, number: u64) -> Result<(), GivenUp> {
        let mut state = lock(&self.state);
        while state.next < number && !state.abandoned {
            state = self.passed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.abandoned { Err(GivenUp) } else { Ok(()) }
    }

    /// Ends all waits, also future ones, with [`GivenUp`].
    pub fn abandon(&self) {
        lock(&self.state).abandoned = true;
        self.passed.notify_all();
    }

    pub fn into_inner(self) -> T {
        self.value.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_take_their_turn_whatever_the_order_of_threads() {
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
    fn an_early_pass_waits_only_for_parts_far_behind() {
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
            assert_eq!(waiting.join().unwrap(), Err(GivenUp));
        });
    }
}
