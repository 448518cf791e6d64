//! Threads that do what they are asked for ahead of whoever wants it.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, Scope};

use crate::lock;

type Work<S> = Box<dyn FnOnce(&S) + Send>;

/// Hands work out in turn. The threads end when it is dropped.
#[derive(Debug)]
pub struct Pool<S>(Sender<Work<S>>);

/// What is on its way.
#[derive(Debug)]
pub struct Pending<T>(Receiver<T>);

impl<S: Sync> Pool<S> {
    /// `shared`: what all the work is done with.
    pub fn start<'s>(
        scope: &'s Scope<'s, '_>,
        (name, threads): (&str, usize),
        shared: &'s S,
    ) -> io::Result<Self>
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

    pub fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&S) -> T + Send + 'static,
    ) -> Pending<T> {
        let (reply, coming) = sync_channel(1);
        // Nobody waits any more when the whole has ended with an error.
        let order = move |shared: &S| drop(reply.send(work(shared)));
        // Threads that are gone show when what they were asked for is waited for.
        let _ = self.0.send(Box::new(order));
        Pending(coming)
    }
}

impl<T> Pending<T> {
    /// `None` when the thread that did it has panicked.
    pub fn wait(self) -> Option<T> {
        self.0.recv().ok()
    }
}
