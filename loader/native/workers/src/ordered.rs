//! Runs tasks in several threads, and consumes their results in the order of the tasks.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::{GivenUp, lock};

/// Maximum number of unconsumed results per task. With that many, the task waits.
const WAITING: usize = 2;

/// Counts the consumed tasks. Threads too far ahead of that count wait, which bounds the memory.
#[derive(Default)]
struct Gate {
    consumed: Mutex<usize>,
    moved: Condvar,
}

impl Gate {
    fn consumed(&self) -> MutexGuard<'_, usize> {
        lock(&self.consumed)
    }

    fn open_to(&self, consumed: usize) {
        *self.consumed() = consumed;
        self.moved.notify_all();
    }

    fn wait(&self, task: usize, ahead: usize) {
        let mut consumed = self.consumed();
        while task > consumed.saturating_add(ahead) {
            consumed = self.moved.wait(consumed).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Lets all tasks through the gate on drop, so that no thread waits for a consumer that has ended with an error.
struct OpenOnDrop<'a>(&'a Gate);

impl Drop for OpenOnDrop<'_> {
    fn drop(&mut self) {
        self.0.open_to(usize::MAX);
    }
}

/// Sends the results of a task.
pub struct Outlet<T, E>(SyncSender<Result<T, E>>);

impl<T, E> Outlet<T, E> {
    /// Waits until fewer than `WAITING` results are unconsumed, then sends `result`. Fails if the consumer has ended.
    pub fn send(&self, result: T) -> Result<(), GivenUp> {
        self.0.send(Ok(result)).map_err(|_| GivenUp)
    }
}

/// Runs tasks 0..`tasks` on `threads` threads, each with its own `producer`, and calls `consume` on the calling thread.
/// Ends with the first failure in the order of the tasks; later failures are ignored.
pub fn in_order<T: Send, F: Send, E: From<F>, P>(
    threads: usize,
    tasks: usize,
    producer: impl Fn() -> P + Sync,
    mut consume: impl FnMut(T) -> Result<(), E>,
) -> Result<(), E>
where
    P: FnMut(usize, &Outlet<T, F>) -> Result<(), F>,
{
    let (senders, receivers): (Vec<_>, Vec<Receiver<Result<T, F>>>) = (0..tasks).map(|_| sync_channel(WAITING)).unzip();
    let queue = Mutex::new(senders.into_iter().enumerate());
    let gate = Gate::default();
    let threads = threads.clamp(1, tasks.max(1));
    std::thread::scope(|scope| {
        let open_gate = OpenOnDrop(&gate);
        for _ in 0..threads {
            scope.spawn(|| {
                let mut produce = producer();
                loop {
                    let next = lock(&queue).next();
                    let Some((task, sender)) = next else { return };
                    gate.wait(task, 2 * threads);
                    let outlet = Outlet(sender);
                    if let Err(error) = produce(task, &outlet) {
                        // Sending fails only if the consumer has ended with an error of its own.
                        let _ = outlet.0.send(Err(error));
                        return;
                    }
                }
            });
        }
        for (task, receiver) in receivers.into_iter().enumerate() {
            for result in receiver {
                consume(result?)?;
            }
            open_gate.0.open_to(task + 1);
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Failure(&'static str);

    impl From<GivenUp> for Failure {
        fn from(_: GivenUp) -> Self {
            Self("given up")
        }
    }

    /// Runs `tasks` tasks of five results each, of which task `failing` fails. Returns the results consumed.
    fn run(threads: usize, tasks: usize, failing: usize) -> (Vec<usize>, Result<(), Failure>) {
        let produce = |task, outlet: &Outlet<usize, Failure>| {
            if task == failing {
                return Err(Failure("failed"));
            }
            Ok((0..5).try_for_each(|number| outlet.send(5 * task + number))?)
        };
        let mut found = Vec::new();
        let consume = |number| {
            found.push(number);
            if number < 300 { Ok(()) } else { Err(Failure("enough")) }
        };
        let result = in_order(threads, tasks, || produce, consume);
        (found, result)
    }

    #[test]
    fn results_arrive_in_order() {
        for threads in 1..5 {
            let (found, result) = run(threads, 40, 40);
            assert!(found.into_iter().eq(0..200));
            assert!(result.is_ok());
        }
        assert!(run(3, 0, 0).0.is_empty());
    }

    #[test]
    fn either_side_may_end_it() {
        for threads in 1..5 {
            let (found, result) = run(threads, 40, 11);
            assert!(found.into_iter().eq(0..55));
            assert_eq!(result, Err(Failure("failed")));
            let (found, result) = run(threads, 1000, 1000);
            assert!(found.into_iter().eq(0..=300));
            assert_eq!(result, Err(Failure("enough")));
        }
    }
}
