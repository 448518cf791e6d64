//! Threads that read and check pages before they are wanted.

use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Scope;

use super::cancelled;
use crate::Result;
use crate::source::PageSource;

/// One checks while the others wait for the disk.
const THREADS: usize = 3;

type Work = Box<dyn FnOnce(&PageSource) + Send>;

/// Hands work out. The threads end when it is dropped.
pub(super) struct ReadaheadPool {
    queue: Sender<Work>,
}

/// What is on its way.
#[derive(Debug)]
pub(super) struct Pending<T>(Receiver<Result<T>>);

impl ReadaheadPool {
    pub fn start<'s>(scope: &'s Scope<'s, '_>, pages: &'s PageSource) -> Result<Self> {
        let (queue, orders) = channel::<Work>();
        let orders = Arc::new(Mutex::new(orders));
        for _ in 0..THREADS {
            let orders = Arc::clone(&orders);
            let work = move || {
                while let Some(order) = take(&orders) {
                    order(pages);
                }
            };
            std::thread::Builder::new().name("ahead".into()).spawn_scoped(scope, work)?;
        }
        Ok(Self { queue })
    }

    pub fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&PageSource) -> Result<T> + Send + 'static,
    ) -> Pending<T> {
        let (reply, coming) = sync_channel(1);
        // Nobody waits any more when the copying has ended with an error; and a thread that is gone shows when what it
        // was asked for is waited for.
        let order = move |pages: &PageSource| drop(reply.send(work(pages)));
        let _ = self.queue.send(Box::new(order));
        Pending(coming)
    }
}

impl<T> Pending<T> {
    pub fn wait(self) -> Result<T> {
        self.0.recv().unwrap_or_else(|_| Err(cancelled()))
    }
}

fn take(orders: &Mutex<Receiver<Work>>) -> Option<Work> {
    orders.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}
