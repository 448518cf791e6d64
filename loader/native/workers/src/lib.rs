//! Threads that share work. [`Turns`] hands out its parts; output that must be in order waits for its [`Turn`] or uses
//! [`in_order`]; a [`Pool`] works ahead. A [`Crew`] keeps the first failure, because all others follow from it: a
//! failing thread reports to the crew before the others can notice.

mod crew;
mod ordered;
mod pool;
mod turn;
mod turns;

pub use crew::{Crew, Panicked, side_by_side};
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

/// Calls `work` on each item, with up to `threads` threads.
pub fn for_each<T: Send>(threads: usize, items: &mut [T], work: impl Fn(&mut T) + Sync) {
    let threads = threads.min(items.len());
    if threads < 2 {
        return items.iter_mut().for_each(work);
    }
    let queue = Mutex::new(items.iter_mut());
    let next = || lock(&queue).next();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(item) = next() {
                    work(item);
                }
            });
        }
    });
}
