//! A path from the root of a tree to one of its leaves.

use std::cmp::Ordering;

use super::contents::Within;
use super::rules::{Place, TreeRules};
use super::store::BlockCache;
use super::view::{Kind, Node, View};
use crate::error::{programming_error, used_twice};
use crate::layout::node;
use crate::meta::NO_PAGE;
use crate::{Error, Result, Table};

/// A position in a tree, or on a sub-page, which counts as a tree with one leaf.
pub(crate) struct Path {
    /// `None` if the tree is a sub-page.
    root: Option<u64>,
    depth: usize,
    rules: TreeRules,
    /// The pages of the path, from the root down to the leaf.
    levels: Vec<Level>,
    /// Number of pages that may still be visited. The budget ends endless loops: in an intact file no page is visited
    /// twice.
    pub budget: u64,
}

/// Where the values of a key are.
pub(crate) enum NodeValues {
    /// The single value is in the node or on overflow pages.
    One,
    SubPage(View),
    Tree(Table),
}

impl NodeValues {
    pub fn count(&self) -> u64 {
        match self {
            Self::One => 1,
            Self::SubPage(view) => view.count as u64,
            Self::Tree(record) => record.entries,
        }
    }
}

struct Level {
    number: u64,
    view: View,
    at: usize,
}

impl Path {
    pub fn new(table: &Table, rules: TreeRules, budget: u64) -> Result<Self> {
        table.check_depth()?;
        let (root, depth) = (Some(table.root), usize::from(table.depth));
        Ok(Self { root, depth, rules, levels: Vec::new(), budget })
    }

    /// Returns the path to the first value of a sub-page, which is in a node of page `number`.
    pub fn in_sub_page(number: u64, view: View, rules: TreeRules, budget: u64) -> Self {
        let levels = vec![Level { number, view, at: 0 }];
        Self { root: None, depth: 1, rules, levels, budget }
    }

    /// Moves to the first node of the tree. Returns whether there is one.
    pub fn first(&mut self, store: &BlockCache) -> Result<bool> {
        self.restart(store)?;
        self.descend(store)
    }

    /// Moves to the last node of the tree. Returns whether there is one.
    pub fn last(&mut self, store: &BlockCache) -> Result<bool> {
        self.restart(store)?;
        self.levels.last_mut().into_iter().for_each(|root| root.at = root.view.count - 1);
        self.descend_to_last(store)
    }

    /// Moves to the previous node. Returns whether there is one.
    pub fn previous(&mut self, store: &BlockCache) -> Result<bool> {
        while let Some(level) = self.levels.last_mut() {
            if let Some(before) = level.at.checked_sub(1) {
                level.at = before;
                return self.descend_to_last(store);
            }
            self.levels.pop();
        }
        Ok(false)
    }

    /// Descends to the last node below the position. Returns whether there is one.
    fn descend_to_last(&mut self, store: &BlockCache) -> Result<bool> {
        while let Some(last) = self.levels.last() {
            if last.view.kind != Kind::Branch {
                return Ok(true);
            }
            let child = last.view.child(last.at);
            self.enter(store, child, false)?;
            self.levels.last_mut().into_iter().for_each(|below| below.at = below.view.count - 1);
        }
        Ok(false)
    }

    /// Moves to the first node whose key is at least `key`. Returns whether there is one.
    pub fn seek(&mut self, store: &BlockCache, key: &[u8]) -> Result<bool> {
        self.restart(store)?;
        while let Some(last) = self.levels.last_mut() {
            if last.view.kind != Kind::Branch {
                last.at = last.bound(0, |here| self.rules.compare(here, key).is_lt());
                break;
            }
            last.at = last.bound(1, |here| self.rules.compare(here, key) != Ordering::Greater) - 1;
            let child = last.view.child(last.at);
            self.enter(store, child, false)?;
        }
        match self.levels.last() {
            Some(leaf) if leaf.at < leaf.view.count => Ok(true),
            _ => self.next(store),
        }
    }

    /// Moves to the next node. Returns whether there is one.
    pub fn next(&mut self, store: &BlockCache) -> Result<bool> {
        while let Some(last) = self.levels.last_mut() {
            if last.at + 1 < last.view.count {
                last.at += 1;
                return self.descend(store);
            }
            self.levels.pop();
        }
        Ok(false)
    }

    fn leaf(&self) -> Result<&Level> {
        self.levels.last().ok_or_else(|| programming_error("no position in the table"))
    }

    pub fn node(&self) -> Result<Node<'_>> {
        let leaf = self.leaf()?;
        Ok(leaf.view.node(leaf.at))
    }

    /// Returns the node's value as a sub-page.
    fn sub_page(&self) -> Result<View> {
        let leaf = self.leaf()?;
        leaf.view.sub_page(leaf.at).map_err(|what| Error::corrupt(leaf.number, what))
    }

    /// Returns the node's value as the record of a tree.
    pub fn record(&self) -> Result<Table> {
        Table::read(self.node()?.data).map_err(|what| Error::corrupt(self.page(), what))
    }

    /// Returns where the values of the node's key are.
    #[inline]
    pub fn values(&self) -> Result<NodeValues> {
        Ok(match self.node()?.flags {
            flags if flags & node::DUPDATA == 0 => NodeValues::One,
            flags if flags & node::SUBDATA == 0 => NodeValues::SubPage(self.sub_page()?),
            _ => NodeValues::Tree(self.record()?),
        })
    }

    /// Returns the number of the node's page.
    pub fn page(&self) -> u64 {
        self.levels.last().map_or(NO_PAGE, |level| level.number)
    }

    /// Subtracts pages from the budget. Fails if the budget is smaller.
    pub fn count_visited(&mut self, pages: u64) -> Result<()> {
        let budget = self.budget.checked_sub(pages);
        self.budget = budget.ok_or_else(|| used_twice(self.page()))?;
        Ok(())
    }

    fn restart(&mut self, store: &BlockCache) -> Result<()> {
        let Some(root) = self.root else { return Ok(()) };
        self.levels.clear();
        if self.depth > 0 { self.enter(store, root, false) } else { Ok(()) }
    }

    /// Descends to the first node below the position. Returns whether there is one.
    fn descend(&mut self, store: &BlockCache) -> Result<bool> {
        while let Some(last) = self.levels.last() {
            if last.view.kind != Kind::Branch {
                return Ok(true);
            }
            let child = last.view.child(last.at);
            self.enter(store, child, true)?;
        }
        Ok(false)
    }

    /// Descends to page `number`. `in_order` is set if the caller visits the keys of the tree in order.
    fn enter(&mut self, store: &BlockCache, number: u64, in_order: bool) -> Result<()> {
        self.count_visited(1)?;
        let is_leaf = self.levels.len() + 1 == self.depth;
        let place = Place { is_leaf, within: self.within() };
        let view = store.checked(number, &self.rules, place, in_order)?;
        self.levels.push(Level { number, view, at: 0 });
        Ok(())
    }

    /// Returns the bounds of the keys below the position, which must be on a branch.
    fn within(&self) -> Within<&[u8]> {
        let mut levels = self.levels.iter().rev();
        let from = levels.clone().find(|level| level.at > 0);
        let to = levels.find(|level| level.at + 1 < level.view.count);
        Within { from: from.map(|level| level.view.key(level.at)), to: to.map(|level| level.view.key(level.at + 1)) }
    }
}

impl Level {
    /// Finds by binary search the first index, from `from` on, for whose key `before` returns false.
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
