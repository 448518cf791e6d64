//! Threads that share one work. Parts of it are taken in [`Turns`]; what must come out in order waits for its [`Turn`],
//! or goes through [`in_order`]; a [`Pool`] works ahead. A [`Crew`] knows which failure came first: the others only
//! followed from it.
//!
//! Who fails tells the crew before anybody else can notice, so no error has to be recognised as one that followed.

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

/// Nobody wants what is made any more: the work has failed elsewhere, or enough of it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GivenUp;

/// Waits for its turn. What a thread that panicked held is still read: its panic is an error of its own.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
