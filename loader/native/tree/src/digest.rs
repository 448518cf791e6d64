//! The fingerprints of all entries of a tree, and the differences between two trees.

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

/// Number of buckets, selected by the upper bits of the DN's hash. With 10^9 entries, a bucket takes 170 MB.
const BUCKETS: usize = 1 << BUCKET_BITS;
const BUCKET_BITS: u32 = 9;
/// Number of bytes of the two hashes in a row.
const HASHES: usize = 32;

/// Rows of all entries of a tree, in memory or in a temporary file: 36 bytes per entry, plus its DN.
pub struct Digest {
    rows: Buckets,
    entries: u64,
    /// Number of RDNs of the shortest DN.
    base: usize,
    checksum: Checksum,
    printer: Fingerprinter,
}

/// The row of an entry: its DN, and hashes of the DN and of the values.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EntryDigest<'a> {
    dn: u128,
    body: u128,
    text: &'a [u8],
}

impl Digest {
    /// Returns a digest that keeps all rows in memory.
    pub fn new(ignore: Names) -> Self {
        Self::within(usize::MAX, &temp_dir(), ignore, &Counters::default())
    }

    /// Returns a digest that keeps at most `memory` bytes in memory; further rows go to a temporary file in `scratch`.
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

    /// Adds the entries of a file; a truncated file is an error.
    pub fn add_path(&mut self, path: &Path, counters: &Counters) -> Result<()> {
        let mut tail = TruncationDetector::default();
        each_record(Input::from_path(path, counters)?, counters, |record| {
            tail.record(record, b"");
            let print = self.printer.print_with(record, |field, _| tail.field(field))?;
            self.add_entry(&print, &record.entry()?.dn)
        })?;
        tail.end().in_file(Some(path))
    }

    /// Adds an entry. `print` must have been computed without the attributes that this digest ignores.
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

common::named!(
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Change {
        OnlyLeft = "only-left",
        OnlyRight = "only-right",
        Changed = "changed",
    }
);

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Difference {
    pub only_left: u64,
    pub only_right: u64,
    pub changed: u64,
    /// The first differing DNs in alphabetical order.
    pub samples: Vec<(Change, String)>,
    /// The subtrees with the most differences, in descending order.
    pub subtrees: Vec<Subtree>,
}

impl Difference {
    /// Compares two trees bucket by bucket. Trees with equal numbers of entries and equal checksums are equal.
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

/// Returns the rows of a bucket in ascending order.
fn rows(bytes: &[u8]) -> Vec<EntryDigest<'_>> {
    let mut rows: Vec<_> = bucket_records(bytes).map(EntryDigest::from_bytes).collect();
    rows.sort_unstable();
    rows
}

/// Passes each row and each difference to `collector`; a changed entry is passed with its left row.
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

/// Counts all differences, and keeps the first `limit` by DN.
struct Collector {
    limit: usize,
    found: Difference,
    least: BinaryHeap<(Vec<u8>, Change)>,
    subtrees: Subtrees,
}

impl Collector {
    /// `base` is the number of RDNs of the base DN.
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
        let text = |(dn, change): (Vec<u8>, Change)| (change, String::from_utf8_lossy(&dn).into_owned());
        let samples = self.least.into_sorted_vec().into_iter().map(text).collect();
        Difference { samples, subtrees: self.subtrees.finish(self.limit), ..self.found }
    }
}

/// The entries below a child of the base; `dn` is the child's DN. `None` stands for the base and all its children.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subtree {
    pub dn: Option<String>,
    pub left: Totals,
    pub right: Totals,
    /// Number of entries that differ.
    pub changes: u64,
}

/// Maximum number of subtrees; the entries of further subtrees are counted in the first subtree, which is not reported.
const MOST: usize = 1 << 17;
/// Maximum number of cached parents.
const PARENTS: usize = 1 << 17;

/// Assigns entries to subtrees.
struct Subtrees {
    /// Number of RDNs of the base DN.
    base: usize,
    /// `parents` maps a parent's DN as spelled, `keys` a subtree's normalized DN, to an index in `found`.
    parents: FxHashMap<Vec<u8>, usize>,
    keys: FxHashMap<Vec<u8>, usize>,
    /// The subtrees. The first is not reported, and has the entries that are counted in no other.
    found: Vec<Subtree>,
}

impl Subtrees {
    fn new(base: usize) -> Self {
        let (parents, keys) = (FxHashMap::default(), FxHashMap::default());
        Self { base, parents, keys, found: vec![Subtree::default()] }
    }

    /// Returns the subtrees that differ, in descending order of differences.
    fn finish(self, limit: usize) -> Vec<Subtree> {
        let differing = self.found.into_iter().skip(1).filter(|one| one.changes > 0);
        let mut found: Vec<_> = differing.collect();
        found.sort_by(|a, b| b.changes.cmp(&a.changes).then_with(|| a.dn.cmp(&b.dn)));
        found.truncate(limit);
        found
    }

    /// Returns the subtree that an entry belongs to.
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

/// Returns a DN without its first `count` RDNs.
fn skip(dn: &[u8], count: usize) -> &[u8] {
    (0..count).fold(dn, |dn, _| parent_text(dn))
}
