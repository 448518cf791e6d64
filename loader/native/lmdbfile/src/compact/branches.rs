//! A tree's lowest branches, in the order of their keys: they tell where the leaves are.

use super::pages::{Pages, runs};
use crate::reader::{Kind, Runs, View};
use crate::{Error, Result, Table};

#[derive(Debug)]
pub(super) struct Branches {
    depth: u16,
    /// To be visited, with their levels; the next one last.
    left: Vec<(u64, u16)>,
    /// Branches visited.
    pub count: u64,
}

impl Branches {
    pub fn new(record: &Table) -> Result<Self> {
        record.check_depth()?;
        let left = if record.depth == 0 { Vec::new() } else { vec![(record.root, 1)] };
        Ok(Self { depth: record.depth, left, count: 0 })
    }

    /// The numbers of the next leaves; `seen` has all pages that were met.
    pub fn next(&mut self, pages: &Pages, seen: &mut Runs) -> Result<Option<Vec<u64>>> {
        while let Some((number, level)) = self.left.pop() {
            if level == self.depth {
                mark(seen, &[number])?;
                return Ok(Some(vec![number]));
            }
            let children = self.children(pages, number, seen)?;
            if level + 1 == self.depth {
                mark(seen, &children)?;
                return Ok(Some(children));
            }
            pages.want_branches(&children);
            self.left.extend(children.iter().rev().map(|&child| (child, level + 1)));
        }
        Ok(None)
    }

    fn children(&mut self, pages: &Pages, number: u64, seen: &mut Runs) -> Result<Vec<u64>> {
        mark(seen, &[number])?;
        self.count += 1;
        children(&pages.view(number)?, number)
    }
}

/// `view`: of the branch with this number.
pub(super) fn children(view: &View, number: u64) -> Result<Vec<u64>> {
    if view.kind != Kind::Branch {
        return Err(Error::corrupt(number, "a page of another kind than its place wants"));
    }
    if view.count < 2 {
        return Err(Error::corrupt(number, "a branch with a single child"));
    }
    Ok((0..view.count).map(|at| view.child(at)).collect())
}

pub(super) fn mark(seen: &mut Runs, numbers: &[u64]) -> Result<()> {
    for (first, count) in runs(numbers) {
        mark_run(seen, first, count as u64)?;
    }
    Ok(())
}

pub(super) fn mark_run(seen: &mut Runs, first: u64, count: u64) -> Result<()> {
    if seen.add(first, count) {
        return Ok(());
    }
    Err(Error::corrupt(first, "a page is used twice"))
}
