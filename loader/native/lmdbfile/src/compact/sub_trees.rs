//! What hangs on leaves and is small, trees of values and values on overflow pages: many are read together.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::vec::IntoIter;

use disk::Buffer;

use super::ahead::{Pending, ReadaheadPool};
use super::branches::children;
use super::leaf::{Leaf, LeafContents, Pointer, only_branch};
use super::pages::{Large, Pages};
use crate::checks::programming_error;
use crate::reader::{View, other_counts};
use crate::{Result, Table};

/// Bytes that are read together: all of them wait for the disk twice, for what is pointed to and for what that points to.
const TOGETHER: u64 = 4 << 20;
/// Such batches under way.
const UNDER_WAY: usize = 3;

/// What a pointer leads to, as far as it is small.
#[derive(Debug)]
pub(super) enum ReferencedData {
    Value { place: Large, block: Arc<Buffer>, bytes: Range<usize> },
    Tree { record: Table, want: LeafContents, leaves: Vec<Leaf> },
}

/// Of some leaves all that is small, in its order.
pub(super) struct ReferencedDataOfLeaves<'a> {
    pages: &'a Pages,
    ahead: &'a ReadaheadPool,
    left: IntoIter<Vec<Pointer>>,
    coming: VecDeque<Pending<Vec<ReferencedData>>>,
    here: IntoIter<ReferencedData>,
}

impl<'a> ReferencedDataOfLeaves<'a> {
    /// The first is on its way then.
    pub fn new(pages: &'a Pages, ahead: &'a ReadaheadPool, leaves: &[Leaf]) -> Self {
        let left = batches(pages, leaves).into_iter();
        let (coming, here) = (VecDeque::new(), Vec::new().into_iter());
        let mut own = Self { pages, ahead, left, coming, here };
        own.ask();
        own
    }

    fn ask(&mut self) {
        while self.coming.len() < UNDER_WAY {
            let Some(batch) = self.left.next() else { return };
            self.coming.push_back(self.ahead.ask(move |pages| things(pages, &batch)));
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
            self.here = batch.wait()?.into_iter();
            self.ask();
        }
    }
}

/// The pages of what is small, as far as the pointer tells.
fn small(pages: &Pages, pointer: &Pointer) -> Option<u64> {
    let count = match pointer {
        Pointer::Large(_, size) => pages.layout.overflow_pages(*size),
        Pointer::Values(record, _) if record.depth == 1 => 1,
        Pointer::Values(record, _) if record.depth == 2 => record.leaf_pages.max(1),
        Pointer::Values(..) | Pointer::Table(_) => return None,
    };
    (count <= TOGETHER / 4 / pages.layout.page_size as u64).then_some(count)
}

fn batches(pages: &Pages, leaves: &[Leaf]) -> Vec<Vec<Pointer>> {
    let most = TOGETHER / pages.layout.page_size as u64;
    let (mut batches, mut room): (Vec<Vec<_>>, _) = (Vec::new(), 0);
    for (_, pointer) in leaves.iter().flat_map(|leaf| &leaf.pointers) {
        let Some(count) = small(pages, pointer) else {
            want(pages, pointer);
            continue;
        };
        match batches.last_mut() {
            Some(batch) if count <= room => batch.push(*pointer),
            _ => {
                batches.push(vec![*pointer]);
                room = most;
            }
        }
        room -= count;
    }
    batches
}

/// What is large is read by whoever copies it, from its beginning on.
fn want(pages: &Pages, pointer: &Pointer) {
    match pointer {
        Pointer::Large(first, size) => pages.want_run(*first, pages.layout.overflow_pages(*size)),
        Pointer::Values(record, _) | Pointer::Table(record) => pages.want_run(record.root, 1),
    }
}

/// What the pointers lead to, all of them small.
fn things(pages: &Pages, pointers: &[Pointer]) -> Result<Vec<ReferencedData>> {
    let stretch = stretch(pages, pointers);
    if let Some((first, count)) = stretch {
        pages.want_run(first, count);
    }
    let numbers = numbers(pages, pointers)?;
    let all = numbers.concat();
    let block = if stretch.is_some() {
        pages.read_cached(&all)?
    } else {
        pages.want(&all);
        pages.read(&all)?
    };
    let block = Arc::new(block);
    let mut at = 0;
    let things = pointers.iter().zip(numbers).map(|(pointer, numbers)| {
        let start = at;
        at += numbers.len();
        thing(pages, pointer, &numbers, &block, start)
    });
    things.collect()
}

/// Where trees that were written one after the other are likely to lie, the first page and how many: a tree's pages
/// before its root, as in a file that was written at once.
fn stretch(pages: &Pages, pointers: &[Pointer]) -> Option<(u64, u64)> {
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
fn numbers(pages: &Pages, pointers: &[Pointer]) -> Result<Vec<Vec<u64>>> {
    let roots: Vec<_> = pointers.iter().filter_map(|one| only_branch(one.tree()?)).collect();
    pages.want_branches(&roots);
    let mut views = pages.views(&roots)?.into_iter();
    let of = |pointer: &Pointer| match *pointer {
        Pointer::Large(first, size) => {
            Ok((first..first.saturating_add(pages.layout.overflow_pages(size))).collect())
        }
        Pointer::Values(record, _) | Pointer::Table(record) => match only_branch(&record) {
            Some(_) => leaves_below(&record, views.next()),
            None => Ok(vec![record.root]),
        },
    };
    pointers.iter().map(of).collect()
}

/// More than the record tells would be more memory than it seemed.
fn leaves_below(record: &Table, branch: Option<View>) -> Result<Vec<u64>> {
    let children = branch.map_or(Ok(Vec::new()), |view| children(&view, record.root))?;
    let right = children.len() as u64 == record.leaf_pages;
    if right { Ok(children) } else { Err(other_counts(record)) }
}

/// `start`: its place among the pages of the block.
fn thing(
    pages: &Pages,
    pointer: &Pointer,
    numbers: &[u64],
    block: &Arc<Buffer>,
    start: usize,
) -> Result<ReferencedData> {
    match *pointer {
        Pointer::Large(first, size) => {
            let offset = start * pages.layout.page_size;
            let place = pages.overflow(&block[offset..], first, size)?;
            let from = offset + pages.layout.page_header;
            Ok(ReferencedData::Value { place, block: Arc::clone(block), bytes: from..from + size })
        }
        Pointer::Values(record, want) => {
            let leaf = |(at, &number)| {
                let view = pages.view_in(block, start + at, number)?;
                Leaf::new(number, view, want)
            };
            let leaves = numbers.iter().enumerate().map(leaf).collect::<Result<_>>()?;
            Ok(ReferencedData::Tree { record, want, leaves })
        }
        Pointer::Table(_) => Err(programming_error("tables are never read together")),
    }
}
