//! What two trees do not have in common.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::panic::resume_unwind;
use std::thread;

use common::Result;
use extsort::bucket_records;

use crate::digest::{BUCKETS, Digest, EntryDigest};
use crate::subtrees::{Subtree, Subtrees};

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
    /// The first differing DNs in the order of their text.
    pub samples: Vec<(Change, String)>,
    /// Where they are: the most different ones.
    pub subtrees: Vec<Subtree>,
}

impl Difference {
    /// Reads both bucket by bucket, each sorted. Trees with equal checksums are equal.
    pub fn between(left: &Digest, right: &Digest, limit: usize) -> Result<Self> {
        let mut collector = Collector::new(limit, left.base().min(right.base()));
        if (left.entries(), left.checksum()) == (right.entries(), right.checksum()) {
            return Ok(collector.finish());
        }
        for bucket in 0..BUCKETS {
            let (lefts, rights) = thread::scope(|scope| {
                let left = scope.spawn(|| left.bucket(bucket));
                (left.join().unwrap_or_else(|panic| resume_unwind(panic)), right.bucket(bucket))
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

/// Shows each row and each difference, with the left row of changed entries.
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

/// Counts all, keeps the `limit` least.
struct Collector {
    limit: usize,
    found: Difference,
    least: BinaryHeap<(Vec<u8>, Change)>,
    subtrees: Subtrees,
}

impl Collector {
    /// `base`: RDNs of the base.
    fn new(limit: usize, base: usize) -> Self {
        let (found, least) = (Difference::default(), BinaryHeap::new());
        Self { limit, found, least, subtrees: Subtrees::new(base) }
    }

    fn count(&mut self, left: Option<&EntryDigest<'_>>, right: Option<&EntryDigest<'_>>) {
        if let Some(left) = left {
            self.subtrees.at(left.text).left.add(left);
        }
        if let Some(right) = right {
            self.subtrees.at(right.text).right.add(right);
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
