//! Threads that read and check leaves before they are wanted.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Scope;

use super::cancelled;
use super::leaf::{Leaf, Want, leaves};
use super::pages::Pages;
use crate::Result;

/// One checks while the others wait for the disk.
const THREADS: usize = 3;

/// Hands work out. The threads end when it is dropped.
#[derive(Debug)]
pub(super) struct Ahead {
    queue: Sender<Order>,
}

#[derive(Debug)]
struct Order {
    numbers: Vec<u64>,
    want: Want,
    reply: SyncSender<Result<Vec<Leaf>>>,
}

/// Leaves that are on their way.
#[derive(Debug)]
pub(super) struct Coming(Receiver<Result<Vec<Leaf>>>);

impl Ahead {
    pub fn start<'s>(scope: &'s Scope<'s, '_>, pages: &'s Pages) -> Result<Self> {
        let (queue, orders) = channel::<Order>();
        let orders = Arc::new(Mutex::new(orders));
        for _ in 0..THREADS {
            let orders = Arc::clone(&orders);
            let work = move || {
                while let Some(order) = take(&orders) {
                    // Nobody waits any more when the copying has ended with an error.
                    let _ = order.reply.send(leaves(pages, &order.numbers, order.want));
                }
            };
            std::thread::Builder::new().name("ahead".into()).spawn_scoped(scope, work)?;
        }
        Ok(Self { queue })
    }

    pub fn ask(&self, numbers: Vec<u64>, want: Want) -> Coming {
        let (reply, coming) = sync_channel(1);
        // A thread that is gone shows when the leaves are waited for.
        let _ = self.queue.send(Order { numbers, want, reply });
        Coming(coming)
    }
}

impl Coming {
    pub fn wait(self) -> Result<Vec<Leaf>> {
        self.0.recv().unwrap_or_else(|_| Err(cancelled()))
    }
}

fn take(orders: &Mutex<Receiver<Order>>) -> Option<Order> {
    orders.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}
