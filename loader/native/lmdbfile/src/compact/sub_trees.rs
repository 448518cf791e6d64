//! What hangs on leaves and is small, trees of values and values on overflow pages: many are read together.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::vec::IntoIter;

use disk::Buffer;
use workers::{Pending, Pool};

use super::branches::{Leaf, Siblings, only_branch};
use super::wait;
use crate::error::programming_error;
use crate::reader::{Pointer, TreeRules, View, Within, other_counts};
use crate::source::{Large, PageSource};
use crate::{Result, Table};

/// Bytes that are read together: all of them wait for the disk twice, for what is pointed to and for what that points to.
const TOGETHER: u64 = 4 << 20;
/// Such batches under way.
const UNDER_WAY: usize = 3;

/// What a pointer leads to, as far as it is small.
#[derive(Debug)]
pub(super) enum ReferencedData {
    Value { place: Large, block: Arc<Buffer>, bytes: Range<usize> },
    Tree { record: Table, leaves: Vec<Leaf> },
}

/// Of some leaves all that is small, in its order.
pub(super) struct ReferencedDataOfLeaves<'a> {
    pages: &'a PageSource,
    ahead: &'a Pool<PageSource>,
    rules: TreeRules,
    left: IntoIter<Vec<Pointer>>,
    coming: VecDeque<Pending<Result<Vec<ReferencedData>>>>,
    here: IntoIter<ReferencedData>,
}

impl<'a> ReferencedDataOfLeaves<'a> {
    /// The first is on its way then.
    pub fn new(
        pages: &'a PageSource,
        ahead: &'a Pool<PageSource>,
        rules: TreeRules,
        leaves: &[Leaf],
    ) -> Self {
        let left = batches(pages, leaves).into_iter();
        let (coming, here) = (VecDeque::new(), Vec::new().into_iter());
        let mut own = Self { pages, ahead, rules, left, coming, here };
        own.ask();
        own
    }

    fn ask(&mut self) {
        while self.coming.len() < UNDER_WAY {
            let Some(batch) = self.left.next() else { return };
            let rules = self.rules;
            self.coming.push_back(self.ahead.ask(move |pages| things(pages, &rules, &batch)));
        }
    }

    /// Where the next pointer leads to; `None` for what is too large to be read with others.
    pub fn next(&mut self, pointer: &Pointer) -> Result<Option<ReferencedData>> {
        if small(self.pages, pointer).is_none() {
            return Ok(None);
        }
        loop {
            if let Some(thing) = self.here.next() {
                return Ok(Some(thing));
            }
            let Some(batch) = self.coming.pop_front() else { return Ok(None) };
            self.here = wait(batch)?.into_iter();
            self.ask();
        }
    }
}

/// The pages of what is small, as far as the pointer tells.
fn small(pages: &PageSource, pointer: &Pointer) -> Option<u64> {
    let count = match pointer {
        Pointer::Large(node) => pages.layout.overflow_pages(node.size),
        Pointer::Values(record) if record.depth == 1 => 1,
        Pointer::Values(record) if record.depth == 2 => record.leaf_pages.max(1),
        Pointer::Values(..) | Pointer::Table(_) => return None,
    };
    (count <= TOGETHER / 4 / pages.layout.page_size as u64).then_some(count)
}

fn batches(pages: &PageSource, leaves: &[Leaf]) -> Vec<Vec<Pointer>> {
    let most = TOGETHER / pages.layout.page_size as u64;
    let (mut batches, mut room): (Vec<Vec<_>>, _) = (Vec::new(), 0);
    for (_, pointer) in leaves.iter().flat_map(|leaf| &leaf.pointers) {
        let Some(count) = small(pages, pointer) else {
            want(pages, pointer);
            continue;
        };
        match batches.last_mut() {
            Some(batch) if count <= room => batch.push(pointer.clone()),
            _ => {
                batches.push(vec![pointer.clone()]);
                room = most;
            }
        }
        room -= count;
    }
    batches
}

/// What is large is read by whoever copies it, from its beginning on.
fn want(pages: &PageSource, pointer: &Pointer) {
    match pointer {
        Pointer::Large(node) => pages.want(node.first, pages.layout.overflow_pages(node.size)),
        Pointer::Values(record) | Pointer::Table(record) => pages.want(record.root, 1),
    }
}

/// What the pointers lead to, all of them small.
fn things(
    pages: &PageSource,
    rules: &TreeRules,
    pointers: &[Pointer],
) -> Result<Vec<ReferencedData>> {
    let stretch = stretch(pages, pointers);
    if let Some((first, count)) = stretch {
        pages.want(first, count);
    }
    let siblings = siblings(pages, rules, pointers)?;
    let all: Vec<_> = siblings.iter().flat_map(|some| &some.numbers).copied().collect();
    let block = if stretch.is_some() {
        pages.read_many_cached(&all)?
    } else {
        pages.want_many(&all);
        pages.read_many(&all)?
    };
    let block = Arc::new(block);
    let mut at = 0;
    let things = pointers.iter().zip(siblings).map(|(pointer, siblings)| {
        let start = at;
        at += siblings.numbers.len();
        thing(pages, rules, pointer, &siblings, &block, start)
    });
    things.collect()
}

/// Where trees that were written one after the other are likely to lie, the first page and how many: a tree's pages
/// before its root, as in a file that was written at once.
fn stretch(pages: &PageSource, pointers: &[Pointer]) -> Option<(u64, u64)> {
    let (mut start, mut end, mut sum) = (u64::MAX, 0, 0);
    for pointer in pointers {
        let (root, count) = (pointer.tree()?.root, small(pages, pointer)?);
        start = start.min(root.saturating_sub(count));
        end = end.max(root.saturating_add(1));
        sum += count + 1;
    }
    let length = end.saturating_sub(start);
    (length <= 2 * sum).then_some((start, length))
}

/// Of each the pages that hold it: those of a value, or the leaves of a tree.
fn siblings(pages: &PageSource, rules: &TreeRules, pointers: &[Pointer]) -> Result<Vec<Siblings>> {
    let roots: Vec<_> = pointers.iter().filter_map(|one| only_branch(one.tree()?)).collect();
    pages.want_branches(&roots);
    let mut views = pages.views(&roots)?.into_iter();
    let of = |pointer: &Pointer| match pointer {
        Pointer::Large(node) => {
            Ok(Siblings::value(node.first, pages.layout.overflow_pages(node.size)))
        }
        Pointer::Values(record) | Pointer::Table(record) => match only_branch(record) {
            Some(_) => leaves_below(record, rules, views.next()),
            None => Ok(Siblings::root(record.root)),
        },
    };
    pointers.iter().map(of).collect()
}

/// More than the record tells would be more memory than it seemed.
fn leaves_below(record: &Table, rules: &TreeRules, branch: Option<View>) -> Result<Siblings> {
    let branch = branch.ok_or_else(|| programming_error("a branch that was not read"))?;
    let within = Within::default();
    let branch = rules.values(record.pad).branch(record.root, &branch, within.borrowed())?;
    let right = branch.len() as u64 == record.leaf_pages;
    if right { Ok(Siblings::below(branch, within)) } else { Err(other_counts(record)) }
}

/// `start`: its place among the pages of the block.
fn thing(
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
            let place = pages.large(&block[offset..], *node)?;
            let from = offset + pages.layout.page_header();
            let bytes = from..from + node.size;
            Ok(ReferencedData::Value { place, block: Arc::clone(block), bytes })
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
