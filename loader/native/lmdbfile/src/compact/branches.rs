//! Iterates over the leaves of a tree in key order, group by group, and parses leaves and their pointers.

use std::cmp::Reverse;

use crate::error::used_twice;
use crate::reader::{Branch, Pointer, Runs, TreeRules, View, Within};
use crate::source::{PageSource, runs};
use crate::{Result, Table};

/// An iterator over groups of leaves.
pub(super) struct Branches {
    rules: TreeRules,
    depth: u16,
    /// Unvisited pages with their levels and the keys allowed below them. The last page is visited next.
    unvisited: Vec<(u64, u16, Within<Vec<u8>>)>,
    /// Number of visited branches.
    pub count: u64,
}

/// Leaves with the same parent, or the overflow pages of a value.
pub(super) struct Siblings {
    pub numbers: Vec<u64>,
    within: Within<Vec<u8>>,
    /// `None` if the only leaf is the root, and for overflow pages.
    parent: Option<Branch>,
}

impl Siblings {
    pub fn root(number: u64) -> Self {
        Self { numbers: vec![number], within: Within::default(), parent: None }
    }

    /// Returns the overflow pages of a value.
    pub fn value(first: u64, count: u64) -> Self {
        let numbers = (first..first.saturating_add(count)).collect();
        Self { numbers, ..Self::root(first) }
    }

    pub fn below(parent: Branch, within: Within<Vec<u8>>) -> Self {
        Self { numbers: parent.children().collect(), within, parent: Some(parent) }
    }

    pub fn within(&self, at: usize) -> Within<&[u8]> {
        let outer = self.within.borrowed();
        self.parent.as_ref().map_or(outer, |parent| parent.within(at, outer))
    }
}

impl Branches {
    pub fn new(record: &Table, rules: TreeRules) -> Result<Self> {
        record.check_depth()?;
        let root = (record.depth > 0).then(|| (record.root, 1, Within::default()));
        Ok(Self { rules, depth: record.depth, unvisited: root.into_iter().collect(), count: 0 })
    }

    /// Returns the next group of leaves. Adds the visited pages and the leaves to `seen`; fails if a page is already in
    /// it.
    pub fn next(&mut self, pages: &PageSource, seen: &mut Runs) -> Result<Option<Siblings>> {
        while let Some((number, level, within)) = self.unvisited.pop() {
            mark(seen, &[number])?;
            if level == self.depth {
                return Ok(Some(Siblings::root(number)));
            }
            self.count += 1;
            let views = pages.views(&[number])?;
            let branch = self.rules.branch(number, &views[0], within.borrowed())?;
            if level + 1 == self.depth {
                let leaves = Siblings::below(branch, within);
                mark(seen, &leaves.numbers)?;
                return Ok(Some(leaves));
            }
            pages.prefetch_branches(&branch.children().collect::<Vec<_>>());
            let below = |(at, child)| (child, level + 1, branch.within(at, within.borrowed()).owned());
            let below: Vec<_> = branch.children().enumerate().map(below).collect();
            self.unvisited.extend(below.into_iter().rev());
        }
        Ok(None)
    }
}

/// Adds pages to `seen`; fails if a page is already in it.
pub(super) fn mark(seen: &mut Runs, numbers: &[u64]) -> Result<()> {
    runs(numbers).try_for_each(|(first, count)| mark_run(seen, first, count as u64))
}

pub(super) fn mark_run(seen: &mut Runs, first: u64, count: u64) -> Result<()> {
    if seen.add(first, count) { Ok(()) } else { Err(used_twice(first)) }
}

pub(super) struct Leaf {
    pub number: u64,
    pub view: View,
    /// Number of values on the leaf; a tree of values counts as one.
    pub entries: u64,
    /// Each pointer with the index of its node. Pointers to tables come first, the largest table at the front.
    pub pointers: Vec<(u16, Pointer)>,
}

impl Pointer {
    /// Returns the record of the tree that the pointer leads to.
    pub fn tree(&self) -> Option<&Table> {
        match self {
            Self::Values(record) | Self::Table(record) => Some(record),
            Self::Large(_) => None,
        }
    }
}

/// Returns the page number of the root if the root is the only branch of the tree.
pub(super) fn only_branch(record: &Table) -> Option<u64> {
    (record.depth == 2).then_some(record.root)
}

/// Reads the leaves and checks them.
pub(super) fn leaves(pages: &PageSource, siblings: &Siblings, rules: &TreeRules) -> Result<Vec<Leaf>> {
    pages.prefetch_many(&siblings.numbers);
    let views = pages.views(&siblings.numbers)?.into_iter().enumerate();
    views.map(|(at, view)| Leaf::new(siblings.numbers[at], view, rules, siblings.within(at))).collect()
}

impl Leaf {
    pub fn new(number: u64, view: View, rules: &TreeRules, within: Within<&[u8]>) -> Result<Self> {
        let leaf = rules.leaf(number, &view, within)?;
        let mut pointers = leaf.others.map_or_else(Vec::new, |others| others.pointers);
        // Tables may be spread over the file. Reading the largest first brings pages of the others into the page cache.
        pointers.sort_by_key(|(_, pointer)| {
            Reverse(if let Pointer::Table(record) = pointer { record.leaf_pages } else { 0 })
        });
        Ok(Self { number, view, entries: leaf.entries, pointers })
    }
}
