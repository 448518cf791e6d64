//! Reads in batches the small data that leaves refer to: trees of values, and values on overflow pages.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::vec::IntoIter;

use disk::Buffer;
use workers::{Pending, Pool};

use super::branches::{Leaf, Siblings, only_branch};
use super::pages::LONG_RUN;
use super::wait;
use crate::error::programming_error;
use crate::reader::{Pointer, TreeRules, View, Within, other_counts};
use crate::source::{Large, PageSource};
use crate::{Result, Table};

/// Maximum size of a batch in bytes. Each batch waits for the disk twice: for the roots of trees, then for the leaves
/// below the roots and for values.
const BATCH_BYTES: u64 = 4 << 20;
/// Number of batches that are being read at a time.
const BATCHES_IN_FLIGHT: usize = 3;

/// The small data that a pointer refers to.
pub(super) enum ReferencedData {
    Value { location: Large, block: Arc<Buffer>, bytes: Range<usize> },
    Tree { record: Table, leaves: Vec<Leaf> },
}

/// The small data that a group of leaves refers to, in the order of the pointers.
pub(super) struct ReferencedDataOfLeaves<'a> {
    pages: &'a PageSource,
    ahead: &'a Pool<PageSource>,
    rules: TreeRules,
    batches: IntoIter<Vec<Pointer>>,
    reading: VecDeque<Pending<Result<Vec<ReferencedData>>>>,
    ready: IntoIter<ReferencedData>,
}

impl<'a> ReferencedDataOfLeaves<'a> {
    /// Begins to read the first batches.
    pub fn new(pages: &'a PageSource, ahead: &'a Pool<PageSource>, rules: TreeRules, leaves: &[Leaf]) -> Self {
        let batches = batches(pages, leaves).into_iter();
        let (reading, ready) = (VecDeque::new(), Vec::new().into_iter());
        let mut data = Self { pages, ahead, rules, batches, reading, ready };
        data.submit_batches();
        data
    }

    fn submit_batches(&mut self) {
        while self.reading.len() < BATCHES_IN_FLIGHT {
            let Some(batch) = self.batches.next() else { return };
            let rules = self.rules;
            self.reading.push_back(self.ahead.submit(move |pages| read_batch(pages, &rules, &batch)));
        }
    }

    /// Returns the data of `pointer`; `None` if they are too large for a batch. Pass the pointers in their order.
    pub fn next(&mut self, pointer: &Pointer) -> Result<Option<ReferencedData>> {
        if page_count_if_small(self.pages, pointer).is_none() {
            return Ok(None);
        }
        loop {
            if let Some(data) = self.ready.next() {
                return Ok(Some(data));
            }
            let Some(batch) = self.reading.pop_front() else { return Ok(None) };
            self.ready = wait(batch)?.into_iter();
            self.submit_batches();
        }
    }
}

/// Returns the number of pages of the data that `pointer` refers to, if they fit into a quarter of a batch. The root of
/// a tree with two levels does not count.
fn page_count_if_small(pages: &PageSource, pointer: &Pointer) -> Option<u64> {
    let count = match pointer {
        Pointer::Large(node) => pages.layout.overflow_pages(node.size),
        Pointer::Values(record) if record.depth == 1 => 1,
        Pointer::Values(record) if record.depth == 2 => record.leaf_pages.max(1),
        Pointer::Values(..) | Pointer::Table(_) => return None,
    };
    (count <= BATCH_BYTES / 4 / pages.layout.page_size as u64).then_some(count)
}

/// Divides the pointers to small data into batches, and starts readahead of larger data, which the copier reads itself.
fn batches(pages: &PageSource, leaves: &[Leaf]) -> Vec<Vec<Pointer>> {
    let batch_pages = BATCH_BYTES / pages.layout.page_size as u64;
    let (mut batches, mut room): (Vec<Vec<_>>, _) = (Vec::new(), 0);
    for (_, pointer) in leaves.iter().flat_map(|leaf| &leaf.pointers) {
        let Some(count) = page_count_if_small(pages, pointer) else {
            match pointer {
                Pointer::Large(node) => pages.prefetch(node.first, pages.layout.overflow_pages(node.size)),
                Pointer::Values(record) | Pointer::Table(record) => pages.prefetch(record.root, 1),
            }
            continue;
        };
        match batches.last_mut() {
            Some(batch) if count <= room => batch.push(pointer.clone()),
            _ => {
                batches.push(vec![pointer.clone()]);
                room = batch_pages;
            }
        }
        room -= count;
    }
    batches
}

/// Reads the data of a batch.
fn read_batch(pages: &PageSource, rules: &TreeRules, pointers: &[Pointer]) -> Result<Vec<ReferencedData>> {
    let contiguous = contiguous_pages(pages, pointers);
    if let Some((first, count)) = contiguous {
        pages.prefetch(first, count);
    }
    let siblings = siblings(pages, rules, pointers)?;
    let all: Vec<_> = siblings.iter().flat_map(|some| &some.numbers).copied().collect();
    // Contiguous pages are read through the page cache, because their readahead has been started.
    let long_run = if contiguous.is_some() { usize::MAX } else { LONG_RUN };
    if contiguous.is_none() {
        pages.prefetch_many(&all);
    }
    let block = Arc::new(pages.read_many(&all, long_run)?);
    let mut at = 0;
    let data = pointers.iter().zip(siblings).map(|(pointer, siblings)| {
        let start = at;
        at += siblings.numbers.len();
        referenced_data(pages, rules, pointer, &siblings, &block, start)
    });
    data.collect()
}

/// Returns the first page and the number of pages of the trees that `pointers` refer to, if the trees seem to have been
/// written one after the other, each with its root last.
fn contiguous_pages(pages: &PageSource, pointers: &[Pointer]) -> Option<(u64, u64)> {
    let (mut start, mut end, mut sum) = (u64::MAX, 0, 0);
    for pointer in pointers {
        let (root, count) = (pointer.tree()?.root, page_count_if_small(pages, pointer)?);
        start = start.min(root.saturating_sub(count));
        end = end.max(root.saturating_add(1));
        sum += count + 1;
    }
    let length = end.saturating_sub(start);
    (length <= 2 * sum).then_some((start, length))
}

/// Returns the pages of each pointer's data: the overflow pages of the value, or the leaves of the tree.
fn siblings(pages: &PageSource, rules: &TreeRules, pointers: &[Pointer]) -> Result<Vec<Siblings>> {
    let roots: Vec<_> = pointers.iter().filter_map(|pointer| only_branch(pointer.tree()?)).collect();
    pages.prefetch_branches(&roots);
    let mut views = pages.views(&roots)?.into_iter();
    let of = |pointer: &Pointer| match pointer {
        Pointer::Large(node) => Ok(Siblings::value(node.first, pages.layout.overflow_pages(node.size))),
        Pointer::Values(record) | Pointer::Table(record) => match only_branch(record) {
            Some(_) => leaves_below(record, rules, views.next()),
            None => Ok(Siblings::root(record.root)),
        },
    };
    pointers.iter().map(of).collect()
}

/// Returns the leaves of a tree with a single branch. Fails if their number differs from that in the record, because
/// more leaves might not fit into the batch.
fn leaves_below(record: &Table, rules: &TreeRules, branch: Option<View>) -> Result<Siblings> {
    let branch = branch.ok_or_else(|| programming_error("a branch that was not read"))?;
    let within = Within::default();
    let branch = rules.values(record.pad).branch(record.root, &branch, within.borrowed())?;
    let fits = branch.len() as u64 == record.leaf_pages;
    if fits { Ok(Siblings::below(branch, within)) } else { Err(other_counts(record)) }
}

/// Parses the data that `pointer` refers to. `start` is the index of their first page in `block`.
fn referenced_data(
    pages: &PageSource,
    rules: &TreeRules,
    pointer: &Pointer,
    siblings: &Siblings,
    block: &Arc<Buffer>,
    start: usize,
) -> Result<ReferencedData> {
    match pointer {
        Pointer::Large(node) => {
            let offset = start * pages.layout.page_size;
            let location = pages.large(&block[offset..], *node)?;
            let from = offset + pages.layout.page_header();
            let bytes = from..from + node.size;
            Ok(ReferencedData::Value { location, block: Arc::clone(block), bytes })
        }
        Pointer::Values(record) => {
            let rules = rules.values(record.pad);
            let leaf = |(at, &number)| {
                let view = pages.nth(block, start + at, number)?;
                Leaf::new(number, view, &rules, siblings.within(at))
            };
            let leaves = siblings.numbers.iter().enumerate().map(leaf).collect::<Result<_>>()?;
            Ok(ReferencedData::Tree { record: **record, leaves })
        }
        Pointer::Table(_) => Err(programming_error("tables are never read together")),
    }
}
