//! Adds entries from LDIF to a running server.
//!
//! One thread reads the input and divides it into batches ([`reader`], [`batch_queue`]). Each connection takes batches
//! ([`worker`]) and adds their entries in LDAP transactions (RFC 5805), or one by one if the server does not support
//! these, with many outstanding requests ([`exchange`]). A [`journal`] records finished entries, so that a killed load
//! can be resumed. Entries that come before their parents, and entries that name other entries, are sent last, in an
//! [`order`] of their own. An entry that the server refuses becomes a [`Rejection`] and does not affect other entries.

mod asks;
mod batch_queue;
mod codes;
mod entry;
mod exchange;
mod found;
mod journal;
#[cfg(test)]
#[path = "../../wire/tests/support/mod.rs"]
mod messages;
mod options;
mod order;
mod reader;
mod requests;
mod shared;
mod shutdown;
#[cfg(test)]
mod tests;
mod tuner;
mod work;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use common::{Code, Counters};
use ldif::rejects;
use wire::{ConnectionOptions, Result};
use workers::Crew;

use journal::{Counts, Journal, PreviousRun};
pub use options::{Aliases, OnExists, Options, Source};
use reader::Reader;
pub use shared::Rejection;
use shared::Shared;
use shutdown::{Shutdown, pass_on};
use worker::Worker;

/// The result of a load. The counts include earlier runs of the same load.
#[derive(Debug)]
pub struct Loaded {
    pub read: u64,
    pub added: u64,
    /// Number of entries that existed already and were not changed.
    pub present: u64,
    pub replaced: u64,
    /// The rejections in the order of the input; the reject file contains them too.
    pub rejections: Vec<Rejection>,
    /// Whether the load stopped before the end of the input, because there were more rejections than allowed.
    pub stopped: bool,
    /// Number of entries that earlier runs had finished.
    pub before: u64,
    /// Number of values that were not sent because of [`Options::leave_out`].
    pub left_out: u64,
    /// Number of entries that were deferred because their parents did not exist.
    pub deferred: u64,
    /// Number of entries that were deferred because they name other entries.
    pub named: u64,
    pub reconnects: u64,
    pub transactions: u64,
    /// Number of entries in the largest transaction.
    pub largest: usize,
}

/// Adds all entries of the sources to a server.
pub fn load(
    sources: Vec<Source>,
    link: &ConnectionOptions,
    options: &Options,
    counters: &Arc<Counters>,
) -> Result<Loaded> {
    let (journal, before) = Journal::open(&options.journal)?;
    let earlier = journal.counts();
    let shared = Shared::new(options, link, counters, journal, before.reserved);
    counters.begin("add", 0);
    let records = passes(&shared, sources, before)?;
    let rejections = shared.rejections();
    if !rejections.is_empty() {
        rejects::write(&options.rejects, &rejections)?;
    }
    Ok(loaded(&shared, records, earlier, rejections))
}

/// Loads the input, and then the deferred entries.
fn passes(shared: &Shared<'_>, sources: Vec<Source>, before: PreviousRun) -> Result<u64> {
    let mut reader = Reader::new(shared, before);
    pass(shared, || reader.read(sources))?;
    let records = reader.records;
    let waiting = shared.tally.deferred.load(Relaxed) + shared.tally.named.load(Relaxed);
    if waiting > 0 && !shared.queue.is_stopped() {
        shared.counters.begin("deferred entries", waiting);
        shared.last_pass.store(true, Relaxed);
        shared.queue.begin();
        pass(shared, || reader.read_deferred())?;
    }
    Ok(records)
}

/// Reads on this thread, while one thread for each connection adds entries.
fn pass(shared: &Shared<'_>, read: impl FnOnce() -> common::Result<()>) -> Result<()> {
    let shutdowns: Vec<Shutdown> = (0..shared.options.jobs).map(|_| Shutdown::default()).collect();
    let over = AtomicBool::new(false);
    let stop = || shared.queue.stop();
    let crew = Crew::new(&stop);
    let read = thread::scope(|scope| {
        let work = |shutdown| crew.run(|| Worker::new(shared, shutdown).run());
        scope.spawn(|| pass_on(shared.counters, &shutdowns, &over));
        let workers: Vec<_> = shutdowns.iter().map(|shutdown| scope.spawn(move || work(shutdown))).collect();
        let read = read();
        shared.queue.end();
        if read.is_err() {
            shared.queue.stop();
        }
        for worker in workers {
            // The crew has recorded the worker's failure, even if it was a panic.
            let _ = worker.join();
        }
        over.store(true, Relaxed);
        read
    });
    ended(crew.end(), read, shared)
}

/// Returns the root cause: the failure of a worker, otherwise that of the reader. If the reader stopped only because of
/// too many rejections, it reports `Cancelled`, which is not an error in that case.
fn ended(worked: Result<()>, read: common::Result<()>, shared: &Shared<'_>) -> Result<()> {
    worked?;
    match read {
        Err(error) if error.code == Code::Cancelled && !shared.counters.is_cancelled() => Ok(()),
        read => Ok(read?),
    }
}

fn loaded(shared: &Shared<'_>, read: u64, earlier: Counts, rejections: Vec<Rejection>) -> Loaded {
    let (counts, tally) = (shared.journal.counts(), &shared.tally);
    Loaded {
        read,
        added: counts.added,
        present: counts.present,
        replaced: counts.replaced,
        stopped: shared.queue.is_stopped(),
        rejections,
        before: earlier.sum(),
        left_out: tally.left_out.load(Relaxed),
        deferred: tally.deferred.load(Relaxed),
        named: tally.named.load(Relaxed),
        reconnects: tally.reconnects.load(Relaxed),
        transactions: tally.transactions.load(Relaxed),
        largest: shared.tuner.largest(),
    }
}
