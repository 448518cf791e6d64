//! The lowest branches of a tree, in key order, which list its leaves; and leaves with their pointers to other pages.

use std::cmp::Reverse;

use crate::error::used_twice;
use crate::reader::{Branch, Pointer, Runs, TreeRules, View, Within};
use crate::source::{PageSource, runs};
use crate::{Result, Table};

pub(super) struct Branches {
    rules: TreeRules,
    depth: u16,
    /// Pages still to be visited, with their levels and the keys allowed below them; the last is the next.
    left: Vec<(u64, u16, Within<Vec<u8>>)>,
    /// Number of branches visited.
    pub count: u64,
}

/// Leaves that have the same parent.
pub(super) struct Siblings {
    pub numbers: Vec<u64>,
    within: Within<Vec<u8>>,
    /// `None` if the only leaf is the root.
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
        Ok(Self { rules, depth: record.depth, left: root.into_iter().collect(), count: 0 })
    }

    /// Returns the next group of leaves. `seen` collects all pages visited, to detect pages that are used twice.
    pub fn next(&mut self, pages: &PageSource, seen: &mut Runs) -> Result<Option<Siblings>> {
        while let Some((number, level, within)) = self.left.pop() {
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
            self.left.extend(below.into_iter().rev());
        }
        Ok(None)
    }
}

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
    /// Each pointer with the index of its node. Tables come first, the largest at the front.
    pub pointers: Vec<(u16, Pointer)>,
}

impl Pointer {
    /// Returns the number of leaf pages of the table that the pointer leads to.
    fn table_pages(&self) -> u64 {
        if let Self::Table(record) = self { record.leaf_pages } else { 0 }
    }

    pub fn tree(&self) -> Option<&Table> {
        match self {
            Self::Values(record) | Self::Table(record) => Some(record),
            Self::Large(_) => None,
        }
    }
}

/// Returns the single branch that points to all leaves, if the tree has exactly two levels.
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
        // Tables may be spread over the file, so reading the largest first caches pages of the others too.
        pointers.sort_by_key(|(_, pointer)| Reverse(pointer.table_pages()));
        Ok(Self { number, view, entries: leaf.entries, pointers })
    }
}
