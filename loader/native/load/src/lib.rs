//! Adds entries from LDIF to a running server.
//!
//! One thread reads the input and divides it into batches ([`reader`], [`batch_queue`]). For each connection, a
//! [`worker`] takes batches and adds their entries with many outstanding requests ([`exchange`]): in LDAP transactions
//! (RFC 5805), or singly if the server does not support transactions. A [`journal`] records finished entries, so that a
//! killed load can be resumed. Entries that come before their parents, and entries that name other entries, are sent
//! last ([`order`]). An entry that the server refuses becomes a [`Rejection`] and does not affect other entries.

mod batch_queue;
mod codes;
mod entry;
mod entry_requests;
mod exchange;
mod journal;
#[cfg(test)]
#[path = "../../wire/tests/support/mod.rs"]
mod messages;
mod options;
mod order;
mod reader;
mod requests;
mod server_entry;
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

use journal::{Journal, PreviousRun};
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
    /// The rejections in the order of the input, as in the reject file.
    pub rejections: Vec<Rejection>,
    /// Whether the load stopped before the end of the input, because there were more rejections than allowed.
    pub stopped: bool,
    /// Number of entries that earlier runs had finished.
    pub before: u64,
    /// Number of values that [`Options::leave_out`] removed.
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
    let (counts, tally) = (shared.journal.counts(), &shared.tally);
    Ok(Loaded {
        read: records,
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
    })
}

/// Loads the input, and then the deferred entries. Returns the number of records of the input.
fn passes(shared: &Shared<'_>, sources: Vec<Source>, before: PreviousRun) -> Result<u64> {
    let mut reader = Reader::new(shared, before);
    pass(shared, || reader.read(sources))?;
    let records = reader.records;
    let deferred = shared.tally.deferred.load(Relaxed) + shared.tally.named.load(Relaxed);
    if deferred > 0 && !shared.queue.is_stopped() {
        shared.counters.begin("deferred entries", deferred);
        shared.last_pass.store(true, Relaxed);
        shared.queue.reopen();
        pass(shared, || reader.read_deferred())?;
    }
    Ok(records)
}

/// Runs `read` on this thread, while one thread for each connection adds entries.
///
/// Returns the error of a worker if a worker failed, otherwise the error of `read`.
fn pass(shared: &Shared<'_>, read: impl FnOnce() -> common::Result<()>) -> Result<()> {
    let shutdowns: Vec<Shutdown> = (0..shared.options.jobs).map(|_| Shutdown::default()).collect();
    let has_ended = AtomicBool::new(false);
    let stop = || shared.queue.stop();
    let crew = Crew::new(&stop);
    let read = thread::scope(|scope| {
        let work = |shutdown| crew.run(|| Worker::new(shared, shutdown).run());
        scope.spawn(|| pass_on(shared.counters, &shutdowns, &has_ended));
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
        has_ended.store(true, Relaxed);
        read
    });
    crew.end()?;
    match read {
        // The reader also reports `Cancelled` if too many rejections stopped the load, which is not an error.
        Err(error) if error.code == Code::Cancelled && !shared.counters.is_cancelled() => Ok(()),
        read => Ok(read?),
    }
}
