//! The state that all connections of a load share.

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

/// Maximum number of hashes in the cache of existing parents. A full cache is cleared.
const MOST_PARENTS: usize = 1 << 20;

/// An entry that was not loaded, with the reason.
pub type Rejection = ldif::rejects::Rejection<u64>;

/// Counters that become fields of [`crate::Loaded`].
#[derive(Debug, Default)]
pub struct Tally {
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
    /// The normalized DNs of the server's suffixes.
    suffixes: Vec<Vec<u8>>,
    pub queue: BatchQueue,
    pub journal: Journal,
    pub tuner: BatchSize,
    pub tally: Tally,
    /// Earlier runs have sent only entries below this position ([`crate::journal::PreviousRun::reserved`]).
    pub reserved_before: u64,
    /// Whether transactions are used. Cleared when the server turns out not to support them.
    pub transactions: AtomicBool,
    /// Whether this is the second pass, which rejects an entry without a parent instead of deferring it.
    pub last_pass: AtomicBool,
    /// Whether entries are looked up before they are sent, because most entries of the last batch existed already.
    pub look_first: AtomicBool,
    /// See [`Shared::all_descriptions_added`].
    added_descriptions: Mutex<FxHashSet<u64>>,
    /// A cache of the hashes of DNs that exist on the server.
    parents: Mutex<FxHashSet<u128>>,
    rejections: Mutex<Vec<Rejection>>,
    deferred: Mutex<DeferredEntries>,
}

/// Entries that the first pass keeps for the second pass, because their parents did not exist, or because they name
/// other entries.
#[derive(Debug)]
struct DeferredEntries {
    sorter: RecordSorter,
    paths: Vec<Arc<PathBuf>>,
    /// Short hashes of the deferred entries' DNs; empty if no entry has to wait for the entries that it names.
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
        let suffixes = options.contexts.iter().map(|dn| ParsedDn::new(dn.as_bytes()).key().to_vec());
        Self {
            options,
            link,
            counters,
            leave_out: Names::new(&options.leave_out),
            references: Names::new(&options.references),
            suffixes: suffixes.collect(),
            queue: BatchQueue::new(options.jobs),
            journal,
            tuner: BatchSize::new(options.batch),
            tally: Tally::default(),
            reserved_before,
            transactions: AtomicBool::new(options.transactions && options.batch != 1),
            last_pass: AtomicBool::new(false),
            look_first: AtomicBool::new(false),
            added_descriptions: Mutex::default(),
            parents: Mutex::default(),
            rejections: Mutex::default(),
            deferred: Mutex::new(DeferredEntries::new(options, counters)),
        }
    }

    pub fn is_last_pass(&self) -> bool {
        self.last_pass.load(Relaxed)
    }

    /// Whether an earlier run may have added the entry.
    pub fn is_uncertain(&self, entry: &Entry) -> bool {
        self.options.all_uncertain || entry.position < self.reserved_before
    }

    /// Whether adds outside of transactions have used all of these attribute descriptions.
    ///
    /// back-mdb assigns a number to a description when it writes the first value. If a transaction that was the first
    /// to use a description is aborted, slapd (2.5 and 2.6) forgets the name but keeps the number: entries written
    /// later cannot be read, or have the wrong attributes. So a transaction must not be the first to use a description.
    pub fn all_descriptions_added(&self, descriptions: &[u64]) -> bool {
        let added = lock(&self.added_descriptions);
        descriptions.iter().all(|hash| added.contains(hash))
    }

    pub fn remember_descriptions(&self, descriptions: &[u64]) {
        lock(&self.added_descriptions).extend(descriptions);
    }

    /// Returns the hash of the suffix of the entry's database, or 0 if the server has only one suffix.
    pub fn suffix_hash(&self, entry: &Entry) -> u64 {
        if self.suffixes.len() < 2 {
            return 0;
        }
        let name = ParsedDn::new(&entry.dn);
        let suffixes = self.suffixes.iter().filter(|suffix| is_within(name.key(), suffix));
        suffixes.max_by_key(|suffix| suffix.len()).map_or(0, |suffix| xxh3_64(suffix))
    }

    fn is_suffix(&self, entry: &Entry) -> bool {
        self.suffixes.iter().any(|suffix| hash(suffix) == entry.name)
    }

    /// Whether the entry needs no parent, or its parent is known to exist on the server.
    pub fn has_parent(&self, entry: &Entry) -> bool {
        self.is_suffix(entry) || lock(&self.parents).contains(&entry.parent)
    }

    pub fn remember_parent(&self, name: u128) {
        let mut parents = lock(&self.parents);
        if parents.len() >= MOST_PARENTS {
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
            dn: String::from_utf8_lossy(&entry.dn).into_owned(),
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
        rejections.sort_by_key(|rejection| rejection.position);
        rejections
    }

    /// Whether the entry must never be added in a transaction; see [`Options::singly`].
    pub fn is_never_in_transaction(&self, entry: &Entry) -> bool {
        self.options.singly && !entry.references.is_empty()
    }

    /// Defers an entry without a parent to the second pass.
    pub fn defer(&self, entry: &Entry) -> common::Result<()> {
        self.tally.deferred.fetch_add(1, Relaxed);
        lock(&self.deferred).put(entry, !self.options.references.is_empty())
    }

    /// Defers an entry to the second pass if it names other entries. Returns whether the entry was deferred. The entry
    /// of a suffix is never deferred, because all other entries are below it.
    pub fn defer_if_it_names_others(&self, entry: &Entry) -> common::Result<bool> {
        if self.is_suffix(entry) || entry.named(&self.references)?.is_empty() {
            return Ok(false);
        }
        self.tally.named.fetch_add(1, Relaxed);
        self.counters.advance(1);
        lock(&self.deferred).put(entry, true)?;
        Ok(true)
    }

    /// Passes the deferred entries to `take`, in the order of [`SendOrder::arranged`].
    pub fn each_deferred(&self, mut take: impl FnMut(Entry) -> common::Result<()>) -> common::Result<()> {
        let empty = DeferredEntries::new(self.options, self.counters);
        let DeferredEntries { sorter, paths, names } = std::mem::replace(&mut *lock(&self.deferred), empty);
        let mut sorted = sorter.finish()?;
        if !names.is_empty() {
            sorted = self.arranged(sorted, &paths, names)?;
        }
        while let Some((_, record)) = sorted.next()? {
            take(self.restored(record, &paths)?)?;
        }
        Ok(())
    }

    /// Sorts the records of deferred entries by [`SendOrder::arranged`]. `names` are the short hashes of their DNs.
    fn arranged(&self, mut sorted: Records, paths: &[Arc<PathBuf>], names: Vec<u64>) -> common::Result<Records> {
        let (mut order, mut same) = (SendOrder::new(names), sorter(self.options, self.counters));
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
        let mut moved = sorter(self.options, self.counters);
        let mut places = places.into_iter();
        while let (Some((_, record)), Some(place)) = (sorted.next()?, places.next()) {
            moved.push(place as u128, record)?;
        }
        moved.finish()
    }

    /// Parses a record that [`DeferredEntries::put`] wrote.
    fn restored(&self, record: &[u8], paths: &[Arc<PathBuf>]) -> common::Result<Entry> {
        let number = |at: usize| {
            let bytes = record.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
            u64::from_le_bytes(bytes.unwrap_or_default())
        };
        let path = usize::try_from(number(0)).ok().and_then(|at| paths.get(at.checked_sub(1)?));
        let mut entry = Entry::new(number(16), path.cloned(), number(8), record.get(24..).unwrap_or_default())?;
        entry.references = entry.named(&self.references)?;
        Ok(entry)
    }
}

fn sorter(options: &Options, counters: &Counters) -> RecordSorter {
    RecordSorter::new(options.memory, 1, &options.scratch, counters.flag())
}

impl DeferredEntries {
    fn new(options: &Options, counters: &Counters) -> Self {
        Self { sorter: sorter(options, counters), paths: Vec::new(), names: Vec::new() }
    }

    /// Adds an entry. The sorter returns the entries by depth, and by position at equal depth. `ordered` says whether
    /// entries have to wait for the entries that they name.
    fn put(&mut self, entry: &Entry, ordered: bool) -> common::Result<()> {
        let path = self.number(entry.path.as_ref());
        let prefix = (entry.depth as u128) << 64 | u128::from(entry.position);
        let numbers = [path, entry.line, entry.position].map(u64::to_le_bytes);
        if ordered {
            self.names.push(short(entry.name));
        }
        self.sorter.push(prefix, &[numbers.as_flattened(), &entry.text].concat())
    }

    /// Returns the number of a path in `paths`, counted from 1; 0 for a stream.
    fn number(&mut self, path: Option<&Arc<PathBuf>>) -> u64 {
        let Some(path) = path else { return 0 };
        let at = self.paths.iter().rposition(|known| known == path).unwrap_or_else(|| {
            self.paths.push(Arc::clone(path));
            self.paths.len() - 1
        });
        at as u64 + 1
    }
}
