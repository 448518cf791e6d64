//! Adds entries in a transaction (RFC 5805).

use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use common::killpoint;
use wire::Result;

use super::{REST, Worker, busy};
use crate::codes;
use crate::exchange::{Adds, Answer};
use crate::journal::Kind;
use crate::requests::Controls;
use crate::work::BatchWork;

/// If responses were slow, the server's threads lag behind. So the pause before the end of a transaction is this many
/// times the longest response time, but at least [`REST`] and at most [`MOST_REST`].
const REST_FACTOR: u32 = 4;
const MOST_REST: Duration = Duration::from_secs(1);

/// Minimum number of entries in the next transaction, after one entry has made a transaction fail.
const LEAST: usize = 8;

impl Worker<'_> {
    /// Adds the entries of `list` in one transaction.
    pub(super) fn together(&mut self, work: &mut BatchWork<'_>, list: &[usize]) -> Result<()> {
        if self.defer_entries_without_parent(work, list)? {
            return Ok(());
        }
        work.sending = list.len();
        let relax = self.shared.options.relax;
        let transaction = match self.exchange()?.start()? {
            Ok(transaction) => transaction,
            Err(answer) if codes::is_transient(answer.code) => return Err(busy(&answer)),
            Err(_) => {
                self.shared.transactions.store(false, Relaxed);
                return Ok(());
            }
        };
        let controls = Controls { relax, transaction: Some(transaction.clone()) };
        let mut adds = Adds::new(work.adds(list), controls);
        self.exchange()?.pipeline(&mut adds)?;
        let (ids, answers, slowest) = (adds.ids, adds.answers, adds.slowest);
        let rested = Instant::now() + (slowest * REST_FACTOR).clamp(REST, MOST_REST);
        let queued = self.handle_refusals(work, list, answers);
        let may_commit = match self.wait(work) {
            None => false,
            Some(incomplete) => !(incomplete && self.has_orphans(work, &queued)?),
        };
        thread::sleep(rested.saturating_duration_since(Instant::now()));
        if queued.is_empty() || !may_commit {
            // The server has not yet executed any of the adds, so an abort loses nothing.
            self.exchange()?.end(false, &transaction)?;
            return Ok(());
        }
        self.commit(work, list, &queued, &ids, &transaction)
    }

    /// Handles the adds that the server refused at once. Returns the entries of the accepted adds, which the server
    /// executes when the transaction ends.
    fn handle_refusals(&self, work: &mut BatchWork<'_>, list: &[usize], answers: Vec<Option<Answer>>) -> Vec<usize> {
        let (mut queued, mut unfit) = (Vec::new(), 0);
        for (&at, answer) in list.iter().zip(answers) {
            match answer {
                Some(answer) if answer.code == 0 => queued.push(at),
                Some(answer) if codes::is_no_transaction(answer.code) => {
                    work.states[at].outside = true;
                    unfit += 1;
                }
                // An entry of another database goes into the next transaction. Any other refused entry is added outside
                // of transactions, so that the response does not depend on other entries.
                Some(answer) => {
                    work.states[at].outside |= answer.code != codes::OTHER_DATABASE || queued.is_empty();
                }
                None => {}
            }
        }
        if unfit == list.len() && unfit > 1 {
            self.shared.transactions.store(false, Relaxed);
        }
        queued
    }

    fn commit(
        &mut self,
        work: &mut BatchWork<'_>,
        list: &[usize],
        queued: &[usize],
        ids: &[i32],
        transaction: &[u8],
    ) -> Result<()> {
        killpoint("load.sent");
        let begun = Instant::now();
        let shutdown = self.shutdown;
        let exchange = self.exchange()?;
        let ended = shutdown.without_interruption(|| exchange.end(true, transaction));
        if ended.is_err() {
            for &at in queued {
                work.states[at].lost();
            }
        }
        let settled = ended?;
        killpoint("load.committed");
        if settled.answer.code == 0 {
            self.shared.tuner.learn(queued.len(), begun.elapsed());
            self.shared.tally.transactions.fetch_add(1, Relaxed);
            for &at in queued {
                work.settle(at, Kind::Added);
            }
            work.size = (work.size * 2).min(self.shared.tuner.size().max(LEAST));
            return Ok(());
        }
        if codes::is_transient(settled.answer.code) {
            return Err(busy(&settled.answer));
        }
        let guilty = settled.guilty.and_then(|id| ids.iter().position(|one| *one == id));
        self.blame(work, queued, guilty.map(|place| list[place]), settled.answer.code);
        Ok(())
    }

    /// Prepares another attempt after a transaction that failed because of one entry. `guilty` is None if the server
    /// does not report the entry.
    fn blame(&self, work: &mut BatchWork<'_>, queued: &[usize], guilty: Option<usize>, code: i32) {
        let Some(at) = guilty else {
            match queued {
                [only] => work.states[*only].outside = true,
                _ => work.size = queued.len() / 2,
            }
            return;
        };
        // The next transaction ends before the guilty entry, because the server accepted the entries before it. The
        // guilty entry is then added outside of transactions, so that the response has the reason.
        work.states[at].outside = true;
        let before = queued.iter().position(|one| *one == at).unwrap_or(0);
        work.size = before.max(LEAST);
        match code {
            codes::EXISTS => work.look_up_all(),
            codes::NO_SUCH_OBJECT => self.shared.forget_parent(work.entry(at).parent),
            _ => {}
        }
    }
}
