//! What all connections of a load share.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use common::{Counters, lock};
use extsort::RecordSorter;
use rustc_hash::FxHashSet;
use tree::Names;
use tree::fingerprint::hash;
use tree::name::ParsedDn;
use wire::ConnectionOptions;
use xxhash_rust::xxh3::xxh3_64;

use crate::batch_queue::BatchQueue;
use crate::entry::Entry;
use crate::journal::Journal;
use crate::options::Options;
use crate::tuner::BatchSize;

/// Parents known to be there that are kept in mind; then the list begins anew.
const PARENTS: usize = 1 << 20;

/// An entry that is not loaded, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    pub position: u64,
    pub path: Option<Arc<PathBuf>>,
    pub line: u64,
    pub dn: String,
    pub reason: String,
    /// Its parent is not there.
    pub orphan: bool,
    pub text: Vec<u8>,
}

/// How often what happened.
#[derive(Debug, Default)]
pub struct RejectCounts {
    pub left_out: AtomicU64,
    pub deferred: AtomicU64,
    pub reconnects: AtomicU64,
    pub transactions: AtomicU64,
}

#[derive(Debug)]
pub struct Shared<'a> {
    pub options: &'a Options,
    pub link: &'a ConnectionOptions,
    pub counters: &'a Arc<Counters>,
    pub leave_out: Names,
    /// Keys of the suffixes' DNs.
    contexts: Vec<Vec<u8>>,
    pub board: BatchQueue,
    pub journal: Journal,
    pub tuner: BatchSize,
    pub tally: RejectCounts,
    pub reserved_before: u64,
    /// Adds go in transactions.
    pub transactions: AtomicBool,
    /// What waited for parents is tried for the last time.
    pub last_pass: AtomicBool,
    /// Most entries of the last batch were there already.
    pub look_first: AtomicBool,
    known: Mutex<FxHashSet<u64>>,
    parents: Mutex<FxHashSet<u128>>,
    rejections: Mutex<Vec<Rejection>>,
    deferred: Mutex<DeferredEntries>,
}

/// Entries that wait for their parents.
#[derive(Debug)]
struct DeferredEntries {
    sorter: RecordSorter,
    paths: Vec<Arc<PathBuf>>,
}

impl<'a> Shared<'a> {
    pub fn new(
        options: &'a Options,
        link: &'a ConnectionOptions,
        counters: &'a Arc<Counters>,
        journal: Journal,
        reserved_before: u64,
    ) -> Self {
        let contexts =
            options.contexts.iter().map(|dn| ParsedDn::new(dn.as_bytes()).key().to_vec());
        Self {
            options,
            link,
            counters,
            leave_out: Names::new(&options.leave_out),
            contexts: contexts.collect(),
            board: BatchQueue::new(options.jobs),
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

    /// May it have been added by an earlier run?
    pub fn is_uncertain(&self, entry: &Entry) -> bool {
        self.options.all_uncertain || entry.position < self.reserved_before
    }

    /// Does the database know all these attribute descriptions?
    ///
    /// back-mdb numbers a description when its first value is written. When a transaction ends in failure that was
    /// the first to use one, slapd (2.5 and 2.6) forgets the name but not the number, and entries written after that
    /// cannot be read, or change their attributes. So only descriptions that a single add has made known are used in
    /// transactions.
    pub fn all_descriptions_added(&self, descriptions: &[u64]) -> bool {
        let known = lock(&self.known);
        descriptions.iter().all(|one| known.contains(one))
    }

    pub fn learn(&self, descriptions: &[u64]) {
        lock(&self.known).extend(descriptions);
    }

    /// The hash of the longest suffix that an entry is below, each is a database of its own.
    pub fn context(&self, entry: &Entry) -> u64 {
        if self.contexts.len() < 2 {
            return 0;
        }
        let name = ParsedDn::new(&entry.dn);
        let within = |context: &&Vec<u8>| is_within(name.key(), context);
        self.contexts
            .iter()
            .filter(within)
            .max_by_key(|one| one.len())
            .map_or(0, |one| xxh3_64(one))
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

    /// Rejects an entry; the load ends when there are too many.
    pub fn reject(&self, entry: &Entry, reason: String, orphan: bool) {
        let mut rejections = lock(&self.rejections);
        rejections.push(Rejection {
            position: entry.position,
            path: entry.path.clone(),
            line: entry.line,
            dn: entry.dn_text(),
            reason,
            orphan,
            text: entry.text.clone(),
        });
        if rejections.len() as u64 > self.options.max_rejects {
            self.board.stop();
        }
    }

    /// In the order of the input.
    pub fn rejections(&self) -> Vec<Rejection> {
        let mut rejections = std::mem::take(&mut *lock(&self.rejections));
        rejections.sort_by_key(|one| one.position);
        rejections
    }

    /// Puts an entry aside until all others were tried.
    pub fn defer(&self, entry: &Entry) -> common::Result<()> {
        self.tally.deferred.fetch_add(1, Relaxed);
        lock(&self.deferred).put(entry)
    }

    /// Gives out the entries that were put aside, parents before children.
    pub fn each_deferred(
        &self,
        mut take: impl FnMut(Entry) -> common::Result<bool>,
    ) -> common::Result<()> {
        let empty = DeferredEntries::new(self.options, self.counters);
        let deferred = std::mem::replace(&mut *lock(&self.deferred), empty);
        let mut sorted = deferred.sorter.finish()?;
        while let Some((prefix, record)) = sorted.next()? {
            let position = u64::try_from(prefix & u128::from(u64::MAX)).unwrap_or_default();
            if !take(restored(position, record, &deferred.paths)?)? {
                break;
            }
        }
        Ok(())
    }
}

impl DeferredEntries {
    fn new(options: &Options, counters: &Counters) -> Self {
        let sorter = RecordSorter::new(options.memory, 1, &options.scratch, counters.flag());
        Self { sorter, paths: Vec::new() }
    }

    fn put(&mut self, entry: &Entry) -> common::Result<()> {
        let path = self.number(entry.path.as_ref());
        let prefix = (entry.depth as u128) << 64 | u128::from(entry.position);
        let record = [&path.to_le_bytes()[..], &entry.line.to_le_bytes(), &entry.text].concat();
        self.sorter.push(prefix, &record)
    }

    /// 0 is a stream.
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

fn restored(position: u64, record: &[u8], paths: &[Arc<PathBuf>]) -> common::Result<Entry> {
    let number = |at: usize| {
        let bytes = record.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        u64::from_le_bytes(bytes.unwrap_or_default())
    };
    let path = usize::try_from(number(0)).ok().and_then(|at| paths.get(at.checked_sub(1)?));
    Entry::new(position, path.cloned(), number(8), record.get(16..).unwrap_or_default())
}

fn is_within(key: &[u8], context: &[u8]) -> bool {
    let above = key.strip_suffix(context);
    above.is_some_and(|above| above.is_empty() || above.ends_with(b",") || context.is_empty())
}
