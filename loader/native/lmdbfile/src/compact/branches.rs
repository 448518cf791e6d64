//! A tree's lowest branches, in the order of their keys: they tell where the leaves are.

use crate::Result;
use crate::error::used_twice;
use crate::reader::{Branch, Runs, TreeRules, Within};
use crate::source::{PageSource, runs};
use crate::table::Table;

#[derive(Debug)]
pub(super) struct Branches {
    rules: TreeRules,
    depth: u16,
    /// To be visited, with their levels and the keys below them; the next one last.
    left: Vec<(u64, u16, Within<Vec<u8>>)>,
    /// Branches visited.
    pub count: u64,
}

/// Leaves with one parent.
#[derive(Debug)]
pub(super) struct Siblings {
    pub numbers: Vec<u64>,
    within: Within<Vec<u8>>,
    /// `None`: the leaf is the root.
    parent: Option<Branch>,
}

impl Siblings {
    pub fn root(number: u64) -> Self {
        Self { numbers: vec![number], within: Within::default(), parent: None }
    }

    /// The pages of a value.
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

    /// The next leaves; `seen` has all pages that were met.
    pub fn next(&mut self, pages: &PageSource, seen: &mut Runs) -> Result<Option<Siblings>> {
        while let Some((number, level, within)) = self.left.pop() {
            mark(seen, &[number])?;
            if level == self.depth {
                return Ok(Some(Siblings::root(number)));
            }
            self.count += 1;
            let branch = read(pages, number, &self.rules, within.borrowed())?;
            if level + 1 == self.depth {
                let leaves = Siblings::below(branch, within);
                mark(seen, &leaves.numbers)?;
                return Ok(Some(leaves));
            }
            pages.want_branches(&branch.children().collect::<Vec<_>>());
            let below =
                |(at, child)| (child, level + 1, branch.within(at, within.borrowed()).owned());
            let below: Vec<_> = branch.children().enumerate().map(below).collect();
            self.left.extend(below.into_iter().rev());
        }
        Ok(None)
    }
}

fn read(
    pages: &PageSource,
    number: u64,
    rules: &TreeRules,
    within: Within<&[u8]>,
) -> Result<Branch> {
    let views = pages.views(&[number])?;
    rules.branch(number, &views[0], within)
}

pub(super) fn mark(seen: &mut Runs, numbers: &[u64]) -> Result<()> {
    runs(numbers).try_for_each(|(first, count)| mark_run(seen, first, count as u64))
}

pub(super) fn mark_run(seen: &mut Runs, first: u64, count: u64) -> Result<()> {
    if seen.add(first, count) { Ok(()) } else { Err(used_twice(first)) }
}
