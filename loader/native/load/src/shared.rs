//! State that all connections of a load share.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use common::{Counters, lock};
use extsort::{RecordSorter, Records};
use rustc_hash::FxHashSet;
use tree::Names;
use tree::fingerprint::hash;
use tree::name::{ParsedDn, is_within};
use wire::ConnectionOptions;
use xxhash_rust::xxh3::xxh3_64;

use crate::batch_queue::BatchQueue;
use crate::entry::Entry;
use crate::journal::Journal;
use crate::options::Options;
use crate::order::{SendOrder, short};
use crate::tuner::BatchSize;

/// Maximum number of cached DNs of existing parents; a full cache is cleared.
const PARENTS: usize = 1 << 20;

/// An entry that was not loaded, with the reason.
pub type Rejection = ldif::rejects::Rejection<u64>;

/// Counters for the report.
#[derive(Debug, Default)]
pub struct RejectCounts {
    pub left_out: AtomicU64,
    pub deferred: AtomicU64,
    pub named: AtomicU64,
    pub reconnects: AtomicU64,
    pub transactions: AtomicU64,
}

#[derive(Debug)]
pub struct Shared<'a> {
    pub options: &'a Options,
    pub link: &'a ConnectionOptions,
    pub counters: &'a Arc<Counters>,
    pub leave_out: Names,
    /// The attribute types of [`Options::references`].
    pub references: Names,
    /// The normalized DNs of the suffixes.
    contexts: Vec<Vec<u8>>,
    pub queue: BatchQueue,
    pub journal: Journal,
    pub tuner: BatchSize,
    pub tally: RejectCounts,
    pub reserved_before: u64,
    /// Whether transactions are used; false once the server turns out not to support them.
    pub transactions: AtomicBool,
    /// Whether this is the second pass, in which an entry without a parent is rejected instead of deferred.
    pub last_pass: AtomicBool,
    /// Whether entries are looked up before they are sent, because most entries of the last batch existed already.
    pub look_first: AtomicBool,
    known: Mutex<FxHashSet<u64>>,
    parents: Mutex<FxHashSet<u128>>,
    rejections: Mutex<Vec<Rejection>>,
    deferred: Mutex<DeferredEntries>,
}

/// Entries that the first pass keeps for the second pass: their parents did not exist, or they name other entries.
#[derive(Debug)]
struct DeferredEntries {
    sorter: RecordSorter,
    paths: Vec<Arc<PathBuf>>,
    /// Hashes of the deferred entries' DNs; empty if no entry has to wait for the entries that it names.
    names: Vec<u64>,
}

impl<'a> Shared<'a> {
    pub fn new(
        options: &'a Options,
        link: &'a ConnectionOptions,
        counters: &'a Arc<Counters>,
        journal: Journal,
        reserved_before: u64,
    ) -> Self {
        let contexts = options.contexts.iter().map(|dn| ParsedDn::new(dn.as_bytes()).key().to_vec());
        Self {
            options,
            link,
            counters,
            leave_out: Names::new(&options.leave_out),
            references: Names::new(&options.references),
            contexts: contexts.collect(),
            queue: BatchQueue::new(options.jobs),
            journal,
            tuner: BatchSize::new(options.batch),
            tally: RejectCounts::default(),
            reserved_before,
            transactions: AtomicBool::new(options.transactions && options.batch != 1),
            last_pass: AtomicBool::new(false),
            look_first: AtomicBool::new(false),
            known: Mutex::default(),
            parents: Mutex::default(),
            rejections: Mutex::default(),
            deferred: Mutex::new(DeferredEntries::new(options, counters)),
        }
    }

    pub fn in_transactions(&self) -> bool {
        self.transactions.load(Relaxed)
    }

    pub fn is_last_pass(&self) -> bool {
        self.last_pass.load(Relaxed)
    }

    /// Whether an earlier run may have added the entry.
    pub fn is_uncertain(&self, entry: &Entry) -> bool {
        self.options.all_uncertain || entry.position < self.reserved_before
    }

    /// Whether an add outside of transactions has already used each of these attribute descriptions.
    ///
    /// back-mdb assigns a number to a description when it writes the first value. If a transaction that was the first
    /// to use a description is aborted, slapd (2.5 and 2.6) forgets the name but keeps the number: entries written
    /// later cannot be read, or have the wrong attributes. So a transaction must not be the first to use a description.
    pub fn all_descriptions_added(&self, descriptions: &[u64]) -> bool {
        let known = lock(&self.known);
        descriptions.iter().all(|one| known.contains(one))
    }

    pub fn learn(&self, descriptions: &[u64]) {
        lock(&self.known).extend(descriptions);
    }

    /// Returns the hash of the suffix of the entry's database, or 0 if the server has only one suffix.
    pub fn context(&self, entry: &Entry) -> u64 {
        if self.contexts.len() < 2 {
            return 0;
        }
        let name = ParsedDn::new(&entry.dn);
        let within = |context: &&Vec<u8>| is_within(name.key(), context);
        self.contexts.iter().filter(within).max_by_key(|one| one.len()).map_or(0, |one| xxh3_64(one))
    }

    fn is_suffix(&self, entry: &Entry) -> bool {
        self.contexts.iter().any(|context| hash(context) == entry.name)
    }

    pub fn has_parent(&self, entry: &Entry) -> bool {
        self.is_suffix(entry) || lock(&self.parents).contains(&entry.parent)
    }

    pub fn remember_parent(&self, name: u128) {
        let mut parents = lock(&self.parents);
        if parents.len() >= PARENTS {
            parents.clear();
        }
        parents.insert(name);
    }

    pub fn forget_parent(&self, name: u128) {
        lock(&self.parents).remove(&name);
    }

    /// Records a rejection, and stops the load if there are too many.
    pub fn reject(&self, entry: &Entry, reason: String, orphan: bool) {
        let mut rejections = lock(&self.rejections);
        rejections.push(Rejection {
            position: entry.position,
            path: entry.path.clone(),
            line: entry.line,
            dn: entry.dn_text(),
            reason,
            orphan,
            missing: None,
            text: entry.text.clone(),
        });
        if rejections.len() as u64 > self.options.max_rejects {
            self.queue.stop();
        }
    }

    /// Returns the rejections in the order of the input.
    pub fn rejections(&self) -> Vec<Rejection> {
        let mut rejections = std::mem::take(&mut *lock(&self.rejections));
        rejections.sort_by_key(|one| one.position);
        rejections
    }

    /// Whether the entry must be added outside of transactions; see [`Options::singly`].
    pub fn stays_outside(&self, entry: &Entry) -> bool {
        self.options.singly && !entry.references.is_empty()
    }

    /// Defers an entry without a parent to the second pass.
    pub fn defer(&self, entry: &Entry) -> common::Result<()> {
        self.tally.deferred.fetch_add(1, Relaxed);
        lock(&self.deferred).put(entry, !self.options.references.is_empty())
    }

    /// Defers an entry to the second pass if it names other entries, and returns whether it did. The entry of a suffix
    /// is never deferred, because all other entries are below it.
    pub fn defer_if_it_names_others(&self, entry: &Entry) -> common::Result<bool> {
        if self.is_suffix(entry) || entry.named(&self.references)?.is_empty() {
            return Ok(false);
        }
        self.tally.named.fetch_add(1, Relaxed);
        self.counters.advance(1);
        lock(&self.deferred).put(entry, true)?;
        Ok(true)
    }

    /// Passes the deferred entries to `take`: parents before children, and each entry after the entries that it names.
    pub fn each_deferred(&self, mut take: impl FnMut(Entry) -> common::Result<()>) -> common::Result<()> {
        let empty = DeferredEntries::new(self.options, self.counters);
        let deferred = std::mem::replace(&mut *lock(&self.deferred), empty);
        let DeferredEntries { sorter, paths, names } = deferred;
        let mut sorted = sorter.finish()?;
        if !names.is_empty() {
            sorted = self.arranged(sorted, &paths, names)?;
        }
        while let Some((_, record)) = sorted.next()? {
            take(self.restored(record, &paths)?)?;
        }
        Ok(())
    }

    /// Sorts entries after the entries that they name. One pass reads who names whom, the next pass moves the records.
    fn arranged(&self, mut sorted: Records, paths: &[Arc<PathBuf>], names: Vec<u64>) -> common::Result<Records> {
        let (mut order, mut same) = (SendOrder::new(names), self.sorter());
        let mut number = 0;
        while let Some((_, record)) = sorted.next()? {
            let entry = self.restored(record, paths)?;
            order.push(entry.name, entry.parent, &entry.references);
            same.push(number, record)?;
            number += 1;
        }
        let arranged = order.arranged();
        let mut sorted = same.finish()?;
        if arranged.is_sorted() {
            return Ok(sorted);
        }
        let mut places = vec![0; arranged.len()];
        for (place, number) in arranged.into_iter().enumerate() {
            places[number as usize] = place;
        }
        let mut moved = self.sorter();
        let mut places = places.into_iter();
        while let (Some((_, record)), Some(place)) = (sorted.next()?, places.next()) {
            moved.push(place as u128, record)?;
        }
        moved.finish()
    }

    fn restored(&self, record: &[u8], paths: &[Arc<PathBuf>]) -> common::Result<Entry> {
        let mut entry = restored(record, paths)?;
        entry.references = entry.named(&self.references)?;
        Ok(entry)
    }

    fn sorter(&self) -> RecordSorter {
        sorter(self.options, self.counters)
    }
}

fn sorter(options: &Options, counters: &Counters) -> RecordSorter {
    RecordSorter::new(options.memory, 1, &options.scratch, counters.flag())
}

impl DeferredEntries {
    fn new(options: &Options, counters: &Counters) -> Self {
        Self { sorter: sorter(options, counters), paths: Vec::new(), names: Vec::new() }
    }

    fn put(&mut self, entry: &Entry, named: bool) -> common::Result<()> {
        let path = self.number(entry.path.as_ref());
        let prefix = (entry.depth as u128) << 64 | u128::from(entry.position);
        let numbers = [path, entry.line, entry.position].map(u64::to_le_bytes);
        if named {
            self.names.push(short(entry.name));
        }
        self.sorter.push(prefix, &[numbers.as_flattened(), &entry.text].concat())
    }

    /// Returns the number of a path in `paths`, counted from 1; 0 for a stream.
    fn number(&mut self, path: Option<&Arc<PathBuf>>) -> u64 {
        let Some(path) = path else { return 0 };
        let known = self.paths.iter().rposition(|known| known == path);
        let at = known.unwrap_or_else(|| {
            self.paths.push(Arc::clone(path));
            self.paths.len() - 1
        });
        at as u64 + 1
    }
}

fn restored(record: &[u8], paths: &[Arc<PathBuf>]) -> common::Result<Entry> {
    let number = |at: usize| {
        let bytes = record.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        u64::from_le_bytes(bytes.unwrap_or_default())
    };
    let path = usize::try_from(number(0)).ok().and_then(|at| paths.get(at.checked_sub(1)?));
    Entry::new(number(16), path.cloned(), number(8), record.get(24..).unwrap_or_default())
}
