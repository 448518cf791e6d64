//! What two trees do not have in common.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::thread;

use crate::digest::{Digest, EntryDigest};
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
    /// Sorts both tables, then reads them side by side.
    pub fn between(left: &mut Digest, right: &mut Digest, limit: usize) -> Self {
        thread::scope(|scope| {
            scope.spawn(|| left.rows.sort_unstable());
            right.rows.sort_unstable();
        });
        let (left, right) = (&*left, &*right);
        let mut collector = Collector { limit, ..Collector::default() };
        if left.checksum() != right.checksum() {
            collector.subtrees = Some(Subtrees::of(left, right));
        }
        merge(&left.rows, &right.rows, |change, row| {
            let side = if change == Change::OnlyRight { right } else { left };
            collector.add(change, side.dn(row));
        });
        collector.finish()
    }
}

/// Calls `see` for each difference, with the left row of changed entries.
fn merge(left: &[EntryDigest], right: &[EntryDigest], mut see: impl FnMut(Change, &EntryDigest)) {
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
        match (left, right) {
            (Some(left), Some(right)) if left.body != right.body => see(Change::Changed, left),
            (Some(left), None) => see(Change::OnlyLeft, left),
            (None, Some(right)) => see(Change::OnlyRight, right),
            _ => {}
        }
    }
}

/// Counts all, keeps the `limit` least.
#[derive(Default)]
struct Collector<'a> {
    limit: usize,
    found: Difference,
    least: BinaryHeap<(&'a [u8], Change)>,
    subtrees: Option<Subtrees<'a>>,
}

impl<'a> Collector<'a> {
    fn add(&mut self, change: Change, dn: &'a [u8]) {
        match change {
            Change::OnlyLeft => self.found.only_left += 1,
            Change::OnlyRight => self.found.only_right += 1,
            Change::Changed => self.found.changed += 1,
        }
        if let Some(subtrees) = &mut self.subtrees {
            subtrees.see(dn);
        }
        self.least.push((dn, change));
        if self.least.len() > self.limit {
            self.least.pop();
        }
    }

    fn finish(self) -> Difference {
        let text =
            |(dn, change): (&[u8], Change)| (change, String::from_utf8_lossy(dn).into_owned());
        let samples = self.least.into_sorted_vec().into_iter().map(text).collect();
        let subtrees = self.subtrees.map(|all| all.finish(self.limit)).unwrap_or_default();
        Difference { samples, subtrees, ..self.found }
    }
}
