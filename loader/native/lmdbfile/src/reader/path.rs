//! A way from the root of a tree to one of its leaves.

use std::cmp::Ordering;

use super::store::BlockCache;
use super::view::{Kind, Node, View};
use crate::checks::programming_error;
use crate::table::NO_PAGE;
use crate::{Error, Order, Result, Table};

/// Position in a tree, or in a sub-page, which is a tree of one leaf.
#[derive(Debug)]
pub(crate) struct Path {
    /// `None`: the one level is a sub-page.
    root: Option<u64>,
    depth: usize,
    order: Order,
    levels: Vec<Level>,
    /// Pages that may still be visited: on the way through a sound tree none is met twice.
    pub budget: u64,
}

pub(crate) const OUT_OF_ORDER: &str = "keys or values that are not in ascending order";

#[derive(Debug)]
struct Level {
    number: u64,
    view: View,
    at: usize,
}

impl Path {
    pub fn new(table: &Table, order: Order, budget: u64) -> Result<Self> {
        table.check_depth()?;
        let (root, depth) = (Some(table.root), usize::from(table.depth));
        Ok(Self { root, depth, order, levels: Vec::new(), budget })
    }

    /// In the sub-page of a node of page `number`, at its first value.
    pub fn in_sub_page(number: u64, view: View, order: Order, budget: u64) -> Result<Self> {
        if view.kind == Kind::Branch {
            return Err(Error::corrupt(number, "a sub-page with branches"));
        }
        let levels = vec![Level { number, view, at: 0 }];
        Ok(Self { root: None, depth: 1, order, levels, budget })
    }

    /// To the first of all nodes: whether there is one.
    pub fn first(&mut self, store: &BlockCache) -> Result<bool> {
        self.restart(store)?;
        self.descend(store)
    }

    /// To the last of all nodes: whether there is one.
    pub fn last(&mut self, store: &BlockCache) -> Result<bool> {
        self.restart(store)?;
        while let Some(last) = self.levels.last_mut() {
            last.at = last.view.count - 1;
            if last.view.kind != Kind::Branch {
                return Ok(true);
            }
            let child = last.view.child(last.at);
            self.push(store, child)?;
        }
        Ok(false)
    }

    /// To the first node whose key is not below `key`: whether there is one.
    pub fn seek(&mut self, store: &BlockCache, key: &[u8]) -> Result<bool> {
        self.restart(store)?;
        while let Some(last) = self.levels.last_mut() {
            if last.view.kind != Kind::Branch {
                last.at = last.bound(0, |here| self.order.compare(here, key).is_lt());
                break;
            }
            last.at = last.bound(1, |here| self.order.compare(here, key) != Ordering::Greater) - 1;
            let child = last.view.child(last.at);
            self.push(store, child)?;
        }
        match self.levels.last() {
            Some(leaf) if leaf.at < leaf.view.count => Ok(true),
            _ => self.next(store),
        }
    }

    /// To the node after this one: whether there is one.
    pub fn next(&mut self, store: &BlockCache) -> Result<bool> {
        let Some(leaf) = self.levels.last_mut() else { return Ok(false) };
        if leaf.at + 1 < leaf.view.count {
            leaf.at += 1;
            let (before, here) = (leaf.view.key(leaf.at - 1), leaf.view.key(leaf.at));
            return check_order(self.order, leaf.number, before, here);
        }
        let before = leaf.view.key(leaf.view.count - 1).to_vec();
        while let Some(last) = self.levels.last_mut() {
            last.at += 1;
            if last.at < last.view.count {
                self.descend(store)?;
                return check_order(self.order, self.page(), &before, self.node()?.key);
            }
            self.levels.pop();
        }
        Ok(false)
    }

    pub fn node(&self) -> Result<Node<'_>> {
        let leaf =
            self.levels.last().ok_or_else(|| programming_error("no position in the table"))?;
        Ok(leaf.view.node(leaf.at))
    }

    /// The node's value as a sub-page.
    pub fn sub_page(&self) -> Result<View> {
        let leaf =
            self.levels.last().ok_or_else(|| programming_error("no position in the table"))?;
        leaf.view.sub_page(leaf.at).map_err(|what| Error::corrupt(leaf.number, what))
    }

    /// The page of the node.
    pub fn page(&self) -> u64 {
        self.levels.last().map_or(NO_PAGE, |level| level.number)
    }

    /// Counts pages as visited.
    pub fn count_visited(&mut self, pages: u64) -> Result<()> {
        let left = self.budget.checked_sub(pages);
        self.budget = left.ok_or_else(|| Error::corrupt(self.page(), "pages are used twice"))?;
        Ok(())
    }

    fn restart(&mut self, store: &BlockCache) -> Result<()> {
        match self.root {
            Some(root) => {
                self.levels.clear();
                if self.depth > 0 { self.push(store, root) } else { Ok(()) }
            }
            None => Ok(()),
        }
    }

    /// To the first node below, where there is one.
    fn descend(&mut self, store: &BlockCache) -> Result<bool> {
        while let Some(last) = self.levels.last() {
            if last.view.kind != Kind::Branch {
                return Ok(true);
            }
            let child = last.view.child(last.at);
            self.put(child, store.next_view(child)?)?;
        }
        Ok(false)
    }

    fn push(&mut self, store: &BlockCache, number: u64) -> Result<()> {
        self.put(number, store.view(number)?)
    }

    fn put(&mut self, number: u64, view: View) -> Result<()> {
        self.count_visited(1)?;
        let is_leaf = self.levels.len() + 1 == self.depth;
        if (view.kind == Kind::Branch) == is_leaf {
            return Err(Error::corrupt(number, "a tree of another depth than its record says"));
        }
        self.levels.push(Level { number, view, at: 0 });
        Ok(())
    }
}

fn check_order(order: Order, page: u64, before: &[u8], here: &[u8]) -> Result<bool> {
    if order.compare(before, here).is_lt() {
        return Ok(true);
    }
    Err(Error::corrupt(page, OUT_OF_ORDER))
}

impl Level {
    /// The first place from `from` on whose key is not `before`.
    fn bound(&self, from: usize, before: impl Fn(&[u8]) -> bool) -> usize {
        let (mut low, mut high) = (from, self.view.count);
        while low < high {
            let middle = low.midpoint(high);
            if before(self.view.key(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}
