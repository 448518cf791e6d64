//! Threads that work ahead of the caller.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, Scope};

use crate::lock;

type Work<S> = Box<dyn FnOnce(&S) + Send>;

/// Threads that run submitted work in order. They end when the pool is dropped.
pub struct Pool<S>(Sender<Work<S>>);

/// A result that a thread of a pool computes.
pub struct Pending<T>(Receiver<T>);

impl<S: Sync> Pool<S> {
    /// `shared` is passed to all work.
    pub fn start<'s>(scope: &'s Scope<'s, '_>, (name, threads): (&str, usize), shared: &'s S) -> io::Result<Self>
    where
        S: 's,
    {
        let (queue, submitted) = channel::<Work<S>>();
        let submitted = Arc::new(Mutex::new(submitted));
        for _ in 0..threads {
            let submitted = Arc::clone(&submitted);
            let run = move || {
                let next = || lock(&submitted).recv().ok();
                while let Some(work) = next() {
                    work(shared);
                }
            };
            Builder::new().name(name.into()).spawn_scoped(scope, run)?;
        }
        Ok(Self(queue))
    }

    pub fn submit<T: Send + 'static>(&self, work: impl FnOnce(&S) -> T + Send + 'static) -> Pending<T> {
        let (reply, result) = sync_channel(1);
        // Sending the result fails only if the caller has ended with an error.
        let work = move |shared: &S| drop(reply.send(work(shared)));
        // Submitting fails only if all threads have panicked, which `Pending::wait` reports.
        let _ = self.0.send(Box::new(work));
        Pending(result)
    }
}

impl<T> Pending<T> {
    /// Waits for the result; `None` if the thread panicked.
    pub fn wait(self) -> Option<T> {
        self.0.recv().ok()
    }
}
