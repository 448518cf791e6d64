//! Reads the input and divides it into batches.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use common::{Code, Error, InFile, Result};
use ldif::tail::TruncationDetector;
use ldif::walk::each_record;
use ldif::{Input, Record};

use crate::entry::Entry;
use crate::journal::PreviousRun;
use crate::options::Source;
use crate::shared::Shared;

/// A batch that reaches this size in bytes gets no more entries.
const MOST_BYTES: usize = 8 << 20;
/// Maximum sleep between two checks whether the load was cancelled or stopped.
const NAP: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub struct Reader<'a> {
    shared: &'a Shared<'a>,
    batch: Vec<Entry>,
    bytes: usize,
    /// Number of records that were read.
    pub records: u64,
    /// Half-open ranges of finished positions: `done` is the current range, `done_later` has the ranges after it.
    done: (u64, u64),
    done_later: std::vec::IntoIter<(u64, u64)>,
    begun: Instant,
    /// Number of entries that were put into the queue.
    queued: u64,
}

impl<'a> Reader<'a> {
    pub fn new(shared: &'a Shared<'a>, before: PreviousRun) -> Self {
        Self {
            shared,
            batch: Vec::new(),
            bytes: 0,
            records: 0,
            done: (0, 0),
            done_later: before.done.into_iter(),
            begun: Instant::now(),
            queued: 0,
        }
    }

    pub fn read(&mut self, sources: Vec<Source>) -> Result<()> {
        for source in sources {
            let input = match source {
                Source::Path(path) => Input::from_path(&path, self.shared.counters)?,
                Source::Stream(stream) => Input::from_fd(stream, self.shared.counters)?,
            };
            self.input(input)?;
        }
        self.hand_over()
    }

    /// Reads one input. Refuses a truncated file before its last batch is sent.
    fn input(&mut self, input: Input<'_>) -> Result<()> {
        let path = input.path.clone().map(Arc::new);
        let mut tail = TruncationDetector::default();
        each_record(input, self.shared.counters, |record| self.record(record, path.as_ref(), &mut tail))?;
        tail.end().in_file(path.as_ref().map(|path| path.as_path()))
    }

    fn record(
        &mut self,
        record: &Record<'_>,
        path: Option<&Arc<PathBuf>>,
        tail: &mut TruncationDetector,
    ) -> Result<()> {
        if self.is_full() {
            self.hand_over()?;
        }
        let position = self.records;
        self.records += 1;
        let head = record.entry()?;
        tail.record(record, &head.dn);
        let mut may_name = false;
        for field in head.fields {
            let field = field?;
            field.value()?;
            tail.field(&field);
            may_name = may_name || self.shared.references.has_field(&field);
        }
        if self.is_done(position) {
            return Ok(());
        }
        let entry = Entry::new(position, path.cloned(), record.line, record.bytes)?;
        if !may_name || !self.shared.defer_if_it_names_others(&entry)? {
            self.push(entry);
        }
        Ok(())
    }

    /// Whether an earlier run has finished the entry. Calls must pass ascending positions.
    fn is_done(&mut self, position: u64) -> bool {
        while self.done.1 <= position {
            let Some(next) = self.done_later.next() else { return false };
            self.done = next;
        }
        self.done.0 <= position
    }

    fn push(&mut self, entry: Entry) {
        self.bytes += entry.text.len();
        self.batch.push(entry);
    }

    fn is_full(&self) -> bool {
        let size = self.shared.tuner.size();
        // If the rate is limited, a batch has at most the entries of one second.
        let size = match self.shared.options.max_rate {
            0 => size,
            rate => size.min(usize::try_from(rate).unwrap_or(size)),
        };
        self.batch.len() >= size || self.bytes >= MOST_BYTES
    }

    /// Puts the current batch into the queue, unless it is empty.
    fn hand_over(&mut self) -> Result<()> {
        let Some(last) = self.batch.iter().map(|entry| entry.position).max() else { return Ok(()) };
        let entries = std::mem::take(&mut self.batch);
        self.bytes = 0;
        self.shared.journal.reserve(last + 1)?;
        self.keep_rate(entries.len() as u64)?;
        let counters = self.shared.counters;
        let is_put = self.shared.queue.put(entries, || counters.is_cancelled());
        if is_put { Ok(()) } else { Err(Error::new(Code::Cancelled, "the load was stopped")) }
    }

    /// Waits until the rate limit allows this number of entries.
    fn keep_rate(&mut self, entries: u64) -> Result<()> {
        let rate = self.shared.options.max_rate;
        if rate > 0 {
            #[allow(clippy::cast_precision_loss, reason = "a wait needs no more precision")]
            let due = Duration::from_secs_f64(self.queued as f64 / rate as f64);
            while self.begun.elapsed() < due && !self.shared.queue.is_stopped() {
                self.shared.counters.check()?;
                thread::sleep(NAP.min(due.saturating_sub(self.begun.elapsed())));
            }
        }
        self.queued += entries;
        Ok(())
    }

    /// Puts the deferred entries into the queue, in the order in which to send them.
    pub fn read_deferred(&mut self) -> Result<()> {
        let shared = self.shared;
        shared.each_deferred(|entry| {
            if self.is_full() {
                self.hand_over()?;
            }
            self.push(entry);
            Ok(())
        })?;
        self.hand_over()
    }
}
