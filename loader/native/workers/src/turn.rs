//! What must happen in the order of the parts, although workers run side by side.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::{GivenUp, lock};

/// So many parts may be done while one before them is not: their results wait in memory.
const AHEAD: u64 = 16;

/// A value that part after part may take, change and pass on.
#[derive(Debug)]
pub struct Turn<T> {
    state: Mutex<State>,
    passed: Condvar,
    /// Apart, so that nobody is held up who only passes while the value is changed, or written.
    value: Mutex<T>,
}

#[derive(Debug)]
struct State {
    /// All parts before this one have passed.
    next: u64,
    /// Those behind it that have passed too.
    early: BTreeSet<u64>,
    abandoned: bool,
}

impl<T> Turn<T> {
    pub const fn new(value: T) -> Self {
        let state = State { next: 0, early: BTreeSet::new(), abandoned: false };
        Self { state: Mutex::new(state), passed: Condvar::new(), value: Mutex::new(value) }
    }

    /// Waits until all parts before `number` have passed, then changes the value. The turn stays with `number`.
    pub fn with<R>(&self, number: u64, act: impl FnOnce(&mut T) -> R) -> Result<R, GivenUp> {
        drop(self.wait(number)?);
        Ok(act(&mut lock(&self.value)))
    }

    /// Part `number` is done with it, be it before its turn. Waits only for those that are far behind.
    pub fn pass(&self, number: u64) -> Result<(), GivenUp> {
        let mut state = lock(&self.state);
        state.early.insert(number);
        let before = state.next;
        while state.early.first() == Some(&state.next) {
            state.early.pop_first();
            state.next += 1;
        }
        let moved = state.next > before;
        // Whoever wakes up finds the lock free.
        drop(state);
        if moved {
            self.passed.notify_all();
        }
        self.wait(number.saturating_sub(AHEAD)).map(|_| ())
    }

    fn wait(&self, number: u64) -> Result<MutexGuard<'_, State>, GivenUp> {
        let mut state = lock(&self.state);
        while state.next < number && !state.abandoned {
            state = self.passed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.abandoned { Err(GivenUp) } else { Ok(state) }
    }

    /// Nobody will wait any more.
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
            assert_eq!(waiting.join().unwrap(), Err(GivenUp));
        });
    }
}
