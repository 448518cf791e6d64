//! A worker owns one connection, takes batches, and settles their entries.

mod parents;
mod present;
mod recover;
mod single_adds;
mod transaction;

use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use wire::{Error, Failure, Phase, Result};

use crate::batch_queue::Batch;
use crate::codes;
use crate::exchange::{Answer, RequestPipeline};
use crate::shared::Shared;
use crate::shutdown::Shutdown;
use crate::work::BatchWork;

/// Maximum number of lookups of an entry that the server reports as existing but does not return. A lookup may find the
/// entry later, because the server may still be processing a request whose response was lost.
const MOST_LOOKUPS: u8 = 3;

/// Pause between the last response on a connection and the end of a transaction. slapd (2.5 and 2.6) responds to an add
/// before its thread has finished with the operation, and frees the operation at the end of the transaction. If the
/// transaction ends too early, slapd crashes.
const REST: Duration = Duration::from_millis(20);

pub struct Worker<'a> {
    shared: &'a Shared<'a>,
    shutdown: &'a Shutdown,
    exchange: Option<RequestPipeline>,
}

impl<'a> Worker<'a> {
    pub const fn new(shared: &'a Shared<'a>, shutdown: &'a Shutdown) -> Self {
        Self { shared, shutdown, exchange: None }
    }

    /// Adds batches until the queue returns no more batches.
    pub fn run(&mut self) -> Result<()> {
        let counters = self.shared.counters;
        while let Some(batch) = self.shared.queue.take(|| counters.is_cancelled()) {
            if let Err(error) = self.batch(batch) {
                // slapd's threads may still be processing operations of this connection.
                thread::sleep(REST);
                return Err(error);
            }
        }
        Ok(())
    }

    fn batch(&mut self, batch: Batch) -> Result<()> {
        let mut work = BatchWork::new(self.shared, batch)?;
        while !work.unsettled.is_empty() {
            self.shared.counters.check()?;
            if self.shared.queue.is_stopped() {
                break;
            }
            let done = self.round(&mut work);
            work.record()?;
            if let Err(error) = done {
                self.recover(&mut work, error)?;
            }
        }
        self.shared.look_first.store(2 * work.existing > work.batch.entries.len(), Relaxed);
        self.shared.queue.settle(&work.batch, work.incomplete);
        Ok(())
    }

    /// Looks up, or adds, the next entries of the batch.
    fn round(&mut self, work: &mut BatchWork<'_>) -> Result<()> {
        work.sending = 0;
        let first = work.first(work.size);
        let lookups: Vec<usize> = first.iter().copied().filter(|&at| work.states[at].needs_lookup).collect();
        if !lookups.is_empty() {
            return self.look_up(work, &lookups);
        }
        if !self.shared.transactions.load(Relaxed) {
            return self.single(work, &first);
        }
        let fit = work.fit(work.size);
        if fit.is_empty() {
            let outside = work.outside(&first);
            self.single(work, &outside)
        } else {
            self.together(work, &fit)
        }
    }

    /// Returns the connection. Opens it if necessary.
    fn exchange(&mut self) -> Result<&mut RequestPipeline> {
        let exchange = match self.exchange.take() {
            Some(exchange) => exchange,
            None => self.open()?,
        };
        Ok(self.exchange.insert(exchange))
    }

    fn open(&self) -> Result<RequestPipeline> {
        RequestPipeline::open(self.shared.link, self.shutdown.stop(), self.shared.options.window)
    }

    /// Waits for the batches on which this batch depends; see [`crate::batch_queue::BatchQueue::wait_for`].
    fn wait(&self, work: &BatchWork<'_>) -> Option<bool> {
        let counters = self.shared.counters;
        self.shared.queue.wait_for(&work.batch.after, || counters.is_cancelled())
    }
}

fn busy(answer: &Answer) -> Error {
    let text = codes::reason(answer.code, &answer.text);
    Failure::new(Phase::Request, answer.code, text).into()
}
