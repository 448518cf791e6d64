//! Threads that share work. [`Turns`] hands out its parts; output that must be in order waits for its [`Turn`] or uses
//! [`in_order`]; a [`Pool`] works ahead. A [`Crew`] keeps the first failure, because all others follow from it: a failing
//! thread reports to the crew before the others can notice.

mod crew;
mod each;
mod ordered;
mod pool;
mod turn;
mod turns;

pub use crew::{Crew, Panicked, side_by_side};
pub use each::for_each;
pub use ordered::{Outlet, in_order};
pub use pool::{Pending, Pool};
pub use turn::Turn;
pub use turns::Turns;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The result is no longer wanted, because the work has failed elsewhere or was ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GivenUp;

/// Locks the mutex, even if a thread panicked while it held the lock: [`Crew`] reports that panic.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
