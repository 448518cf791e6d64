//! Worker threads and their first failure.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::{fmt, thread};

use crate::lock;

/// A worker panicked; its message is on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Panicked;

impl fmt::Display for Panicked {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a worker ended unexpectedly")
    }
}

/// State shared by the members of a crew.
pub struct Crew<'s, E> {
    state: Mutex<State<E>>,
    stop: &'s (dyn Fn() + Sync),
}

enum State<E> {
    Working,
    Failed(E),
    /// [`Crew::dismiss`] was called; later failures only follow from that.
    Dismissed,
}

impl<'s, E: From<Panicked>> Crew<'s, E> {
    /// `stop` must end all waits of members and hand out no more work. It may be called more than once.
    pub fn new(stop: &'s (dyn Fn() + Sync)) -> Self {
        Self { state: Mutex::new(State::Working), stop }
    }

    /// Runs a member's work and returns its result unless it failed.
    pub fn run<R>(&self, work: impl FnOnce() -> Result<R, E>) -> Option<R> {
        let ended = catch_unwind(AssertUnwindSafe(work));
        match ended.unwrap_or_else(|_| Err(Panicked.into())) {
            Ok(result) => Some(result),
            Err(error) => {
                self.leave(State::Failed(error));
                None
            }
        }
    }

    /// Ends the work early without a failure.
    pub fn dismiss(&self) {
        self.leave(State::Dismissed);
    }

    /// Returns the first failure, after all members have ended.
    pub fn end(self) -> Result<(), E> {
        match self.state.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
            State::Failed(error) => Err(error),
            State::Working | State::Dismissed => Ok(()),
        }
    }

    /// Stores the reason before calling `stop`, because `stop` makes other members fail.
    fn leave(&self, reason: State<E>) {
        let mut state = lock(&self.state);
        if matches!(*state, State::Working) {
            *state = reason;
        }
        drop(state);
        (self.stop)();
    }
}

/// Runs `work` in a thread for each worker. Returns all results in order. After the first failure it calls `stop`, and
/// returns that failure.
pub fn side_by_side<W: Send, R: Send, E: Send + From<Panicked>>(
    workers: impl IntoIterator<Item = W>,
    stop: &(dyn Fn() + Sync),
    work: impl Fn(W) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let crew = Crew::new(stop);
    let results = thread::scope(|scope| {
        let (crew, work) = (&crew, &work);
        let start = |worker| scope.spawn(move || crew.run(|| work(worker)));
        let running: Vec<_> = workers.into_iter().map(start).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        running.into_iter().filter_map(join).collect()
    });
    crew.end().map(|()| results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GivenUp, Turn, Turns};

    #[derive(Debug, PartialEq)]
    enum Failure {
        Real(usize),
        Followed,
        Panic,
    }

    impl From<GivenUp> for Failure {
        fn from(_: GivenUp) -> Self {
            Self::Followed
        }
    }

    impl From<Panicked> for Failure {
        fn from(_: Panicked) -> Self {
            Self::Panic
        }
    }

    /// Splits work into parts, of which one fails by calling `fail`; the others wait for their turns.
    fn run(threads: usize, failing: usize, fail: fn(usize) -> Failure) -> Result<Vec<usize>, Failure> {
        let (turns, turn) = (Turns::new(50), Turn::new(0));
        let stop = || {
            turns.stop();
            turn.abandon();
            // Lets waiting threads continue before the failed one.
            thread::yield_now();
        };
        side_by_side(0..threads, &stop, |_| {
            let mut done = 0;
            for part in turns.iter() {
                let number = part as u64;
                if part == failing {
                    return Err(fail(part));
                }
                turn.with(number, |value| *value += 1)?;
                turn.pass(number)?;
                done += 1;
            }
            Ok(done)
        })
    }

    #[test]
    fn all_parts_are_done() {
        for threads in 1..6 {
            let done = run(threads, usize::MAX, Failure::Real).unwrap();
            assert_eq!((done.len(), done.iter().sum()), (threads, 50));
        }
    }

    #[test]
    fn the_first_failure_is_reported_not_its_consequences() {
        for round in 0..2000 {
            let failing = round % 50;
            assert_eq!(run(2 + round % 6, failing, Failure::Real), Err(Failure::Real(failing)));
        }
    }

    #[test]
    fn the_first_failure_is_reported_although_others_are_faster() {
        let (noticed, turn) = (std::sync::Barrier::new(2), Turn::new(()));
        let stop = || turn.abandon();
        let crew = Crew::new(&stop);
        thread::scope(|scope| {
            scope.spawn(|| {
                let failed = crew.run(|| Ok::<_, Failure>(turn.with(1, |()| ())?));
                assert_eq!(failed, None);
                noticed.wait();
            });
            crew.run(|| Err::<(), _>(Failure::Real(1)));
            noticed.wait();
        });
        assert_eq!(crew.end(), Err(Failure::Real(1)));
    }

    #[test]
    fn a_panic_ends_the_work_and_lets_nobody_wait() {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let ended = run(4, 7, |_| panic!("on purpose"));
        std::panic::set_hook(hook);
        assert_eq!(ended, Err(Failure::Panic));
    }

    #[test]
    fn a_dismissed_member_has_not_failed() {
        let turn = Turn::new(());
        let stop = || turn.abandon();
        let crew = Crew::<Failure>::new(&stop);
        crew.dismiss();
        assert_eq!(crew.run(|| Ok(turn.with(0, |()| ())?)), None);
        assert_eq!(crew.end(), Ok(()));
    }
}
