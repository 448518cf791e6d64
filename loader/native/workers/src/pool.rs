//! Threads that work ahead of the caller.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, Scope};

use crate::lock;

type Work<S> = Box<dyn FnOnce(&S) + Send>;

/// Hands out work in order. Its threads end when it is dropped.
pub struct Pool<S>(Sender<Work<S>>);

/// A result that another thread computes.
pub struct Pending<T>(Receiver<T>);

impl<S: Sync> Pool<S> {
    /// `shared` is passed to all work.
    pub fn start<'s>(scope: &'s Scope<'s, '_>, (name, threads): (&str, usize), shared: &'s S) -> io::Result<Self>
    where
        S: 's,
    {
        let (queue, orders) = channel::<Work<S>>();
        let orders = Arc::new(Mutex::new(orders));
        for _ in 0..threads {
            let orders = Arc::clone(&orders);
            let work = move || {
                let take = || lock(&orders).recv().ok();
                while let Some(order) = take() {
                    order(shared);
                }
            };
            Builder::new().name(name.into()).spawn_scoped(scope, work)?;
        }
        Ok(Self(queue))
    }

    pub fn submit<T: Send + 'static>(&self, work: impl FnOnce(&S) -> T + Send + 'static) -> Pending<T> {
        let (reply, coming) = sync_channel(1);
        // If sending fails, the caller has ended with an error.
        let order = move |shared: &S| drop(reply.send(work(shared)));
        // If all threads are gone, `Pending::wait` reports it.
        let _ = self.0.send(Box::new(order));
        Pending(coming)
    }
}

impl<T> Pending<T> {
    /// Waits for the result; `None` if the thread panicked.
    pub fn wait(self) -> Option<T> {
        self.0.recv().ok()
    }
}
