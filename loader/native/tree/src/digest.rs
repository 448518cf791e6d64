//! The fingerprints of a whole tree, and the differences between two trees.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::env::temp_dir;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread;

use common::{Counters, InFile, Result};
use extsort::{Buckets, bucket_records};
use ldif::Input;
use ldif::tail::TruncationDetector;
use ldif::walk::each_record;
use rustc_hash::FxHashMap;

use crate::fingerprint::{Checksum, Fingerprint, Fingerprinter, Totals};
use crate::name::{ParsedDn, parent_text, rdns};
use crate::names::Names;

/// Number of buckets, by the top bits of the DN's hash. With 10^9 entries, a bucket has 170 MB.
const BUCKETS: usize = 1 << BUCKET_BITS;
const BUCKET_BITS: u32 = 9;
const HASHES: usize = 32;

/// The rows of all entries, in memory or in a temporary file: 36 bytes per entry, plus its DN.
#[derive(Debug)]
pub struct Digest {
    rows: Buckets,
    entries: u64,
    /// Number of RDNs of the shortest DN.
    base: usize,
    checksum: Checksum,
    printer: Fingerprinter,
}

/// The row of an entry: hashes of its DN and of its values, and its DN.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EntryDigest<'a> {
    dn: u128,
    body: u128,
    text: &'a [u8],
}

impl Digest {
    /// A digest that is kept in memory.
    pub fn new(ignore: Names) -> Self {
        Self::within(usize::MAX, &temp_dir(), ignore, &Counters::default())
    }

    /// A digest of at most `memory` bytes in memory; the rest goes to a temporary file in `scratch`.
    pub fn within(memory: usize, scratch: &Path, ignore: Names, counters: &Counters) -> Self {
        Self {
            rows: Buckets::new(BUCKETS, memory, scratch, counters.flag()),
            entries: 0,
            base: usize::MAX,
            checksum: Checksum::default(),
            printer: Fingerprinter::new(ignore),
        }
    }

    pub fn entries(&self) -> u64 {
        self.entries
    }

    pub fn checksum(&self) -> String {
        self.checksum.hex()
    }

    /// Adds a file, which must not be truncated.
    pub fn add_path(&mut self, path: &Path, counters: &Counters) -> Result<()> {
        let mut tail = TruncationDetector::default();
        each_record(Input::from_path(path, counters)?, counters, |record| {
            tail.record(record, b"");
            let print = self.printer.print_with(record, |field, _| tail.field(field))?;
            self.add_entry(&print, &record.entry()?.dn)
        })?;
        tail.end().in_file(Some(path))
    }

    /// Adds an entry. `print` must ignore the same attributes as this digest.
    pub fn add_entry(&mut self, print: &Fingerprint, dn: &[u8]) -> Result<()> {
        self.checksum.add(print.combined());
        self.entries += 1;
        self.base = rdns(dn).take(self.base).count();
        let bucket = (print.dn >> (u128::BITS - BUCKET_BITS)) as usize;
        self.rows.append(bucket, &[&print.dn.to_le_bytes(), &print.body.to_le_bytes(), dn])
    }

    pub fn ignored(&self) -> &Names {
        self.printer.ignored()
    }
}

impl<'a> EntryDigest<'a> {
    /// Decodes a row.
    fn from_bytes(row: &'a [u8]) -> Self {
        let (hashes, text) = row.split_at(HASHES);
        let (dn, body) = hashes.split_at(HASHES / 2);
        let hash = |bytes: &[u8]| u128::from_le_bytes(bytes.try_into().unwrap_or_default());
        Self { dn: hash(dn), body: hash(body), text }
    }

    fn print(&self) -> Fingerprint {
        Fingerprint { dn: self.dn, body: self.body }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    OnlyLeft,
    OnlyRight,
    Changed,
}

impl Change {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OnlyLeft => "only-left",
            Self::OnlyRight => "only-right",
            Self::Changed => "changed",
        }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Difference {
    pub only_left: u64,
    pub only_right: u64,
    pub changed: u64,
    /// The first differing DNs in alphabetical order.
    pub samples: Vec<(Change, String)>,
    /// The subtrees with the most differences.
    pub subtrees: Vec<Subtree>,
}

impl Difference {
    /// Compares both bucket by bucket, each sorted. Trees with equal checksums are equal.
    pub fn between(left: &Digest, right: &Digest, limit: usize) -> Result<Self> {
        let mut collector = Collector::new(limit, left.base.min(right.base));
        if (left.entries, left.checksum) == (right.entries, right.checksum) {
            return Ok(collector.finish());
        }
        for bucket in 0..BUCKETS {
            let (lefts, rights) = thread::scope(|scope| {
                let left = scope.spawn(|| left.rows.read(bucket));
                (left.join().unwrap_or_else(|panic| resume_unwind(panic)), right.rows.read(bucket))
            });
            let (lefts, rights) = (lefts?, rights?);
            merge(&rows(&lefts), &rows(&rights), &mut collector);
        }
        Ok(collector.finish())
    }
}

/// The rows of a bucket, sorted.
fn rows(bytes: &[u8]) -> Vec<EntryDigest<'_>> {
    let mut rows: Vec<_> = bucket_records(bytes).map(EntryDigest::from_bytes).collect();
    rows.sort_unstable();
    rows
}

/// Passes each row and each difference to `collector`; for changed entries the left row.
fn merge(left: &[EntryDigest<'_>], right: &[EntryDigest<'_>], collector: &mut Collector) {
    let (mut lefts, mut rights) = (left.iter().peekable(), right.iter().peekable());
    loop {
        let order = match (lefts.peek(), rights.peek()) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(left), Some(right)) => left.dn.cmp(&right.dn),
        };
        let left = if order.is_le() { lefts.next() } else { None };
        let right = if order.is_ge() { rights.next() } else { None };
        collector.count(left, right);
        match (left, right) {
            (Some(left), Some(right)) if left.body != right.body => {
                collector.add(Change::Changed, left);
            }
            (Some(left), None) => collector.add(Change::OnlyLeft, left),
            (None, Some(right)) => collector.add(Change::OnlyRight, right),
            _ => {}
        }
    }
}

/// Counts all differences and keeps the first `limit`.
struct Collector {
    limit: usize,
    found: Difference,
    least: BinaryHeap<(Vec<u8>, Change)>,
    subtrees: Subtrees,
}

impl Collector {
    /// `base` is the number of RDNs of the base.
    fn new(limit: usize, base: usize) -> Self {
        let (found, least) = (Difference::default(), BinaryHeap::new());
        Self { limit, found, least, subtrees: Subtrees::new(base) }
    }

    fn count(&mut self, left: Option<&EntryDigest<'_>>, right: Option<&EntryDigest<'_>>) {
        if let Some(left) = left {
            self.subtrees.at(left.text).left.add(left.print().combined());
        }
        if let Some(right) = right {
            self.subtrees.at(right.text).right.add(right.print().combined());
        }
    }

    fn add(&mut self, change: Change, row: &EntryDigest<'_>) {
        match change {
            Change::OnlyLeft => self.found.only_left += 1,
            Change::OnlyRight => self.found.only_right += 1,
            Change::Changed => self.found.changed += 1,
        }
        self.subtrees.at(row.text).changes += 1;
        let is_less = |(greatest, _): &(Vec<u8>, Change)| row.text < greatest.as_slice();
        if self.least.len() < self.limit || self.least.peek().is_some_and(is_less) {
            self.least.push((row.text.to_vec(), change));
            if self.least.len() > self.limit {
                self.least.pop();
            }
        }
    }

    fn finish(self) -> Difference {
        let text =
            |(dn, change): (Vec<u8>, Change)| (change, String::from_utf8_lossy(&dn).into_owned());
        let samples = self.least.into_sorted_vec().into_iter().map(text).collect();
        Difference { samples, subtrees: self.subtrees.finish(self.limit), ..self.found }
    }
}

/// An entry directly below the base with everything below it; the one without a name has the base and the leaves
/// directly below it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subtree {
    pub dn: Option<String>,
    pub left: Totals,
    pub right: Totals,
    /// Number of entries that differ.
    pub changes: u64,
}

/// Most subtrees; entries of further subtrees are not counted in any.
const MOST: usize = 1 << 17;
/// Most cached parents.
const PARENTS: usize = 1 << 17;

/// Assigns entries to subtrees.
#[derive(Debug)]
struct Subtrees {
    /// Number of RDNs of the base.
    base: usize,
    /// Subtrees by the text of parents, and by their own keys.
    parents: FxHashMap<Vec<u8>, usize>,
    keys: FxHashMap<Vec<u8>, usize>,
    /// The first one has the entries that are counted in no subtree.
    found: Vec<Subtree>,
}

impl Subtrees {
    fn new(base: usize) -> Self {
        let (parents, keys) = (FxHashMap::default(), FxHashMap::default());
        Self { base, parents, keys, found: vec![Subtree::default()] }
    }

    /// Returns the subtrees with differences, the most different first.
    fn finish(self, limit: usize) -> Vec<Subtree> {
        let differing = self.found.into_iter().skip(1).filter(|one| one.changes > 0);
        let mut found: Vec<_> = differing.collect();
        found.sort_by(|a, b| b.changes.cmp(&a.changes).then_with(|| a.dn.cmp(&b.dn)));
        found.truncate(limit);
        found
    }

    /// Returns the subtree of an entry.
    fn at(&mut self, dn: &[u8]) -> &mut Subtree {
        let parent = parent_text(dn);
        let at = match self.parents.get(parent) {
            Some(&at) => at,
            None => self.learn(parent),
        };
        &mut self.found[at]
    }

    fn learn(&mut self, parent: &[u8]) -> usize {
        let depth = rdns(parent).count();
        let top = depth.checked_sub(self.base + 1).map(|above| skip(parent, above));
        let key = top.map_or(Vec::new(), |top| ParsedDn::new(top).key().to_vec());
        let at = match self.keys.get(&key) {
            Some(&at) => at,
            None if self.keys.len() == MOST => 0,
            None => {
                let dn = top.map(|top| String::from_utf8_lossy(top).into_owned());
                self.found.push(Subtree { dn, ..Subtree::default() });
                self.keys.insert(key, self.found.len() - 1);
                self.found.len() - 1
            }
        };
        if self.parents.len() == PARENTS {
            self.parents.clear();
        }
        self.parents.insert(parent.to_vec(), at);
        at
    }
}

/// A DN without its first `count` RDNs.
fn skip(dn: &[u8], count: usize) -> &[u8] {
    (0..count).fold(dn, |dn, _| parent_text(dn))
}
