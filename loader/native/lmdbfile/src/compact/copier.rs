//! Trees written again, the trees that hang on a leaf before it.

use std::collections::VecDeque;

use super::ahead::{Ahead, Coming};
use super::branches::{Branches, mark_run};
use super::leaf::{Leaf, Pointer, Want, leaves};
use super::pages::Pages;
use super::{Watch, cancelled};
use crate::bulk::Bulk;
use crate::layout::META_PAGES;
use crate::reader::{Kind, Runs};
use crate::{Error, FileWriter, Result, Summary, Table};

/// Lowest branches whose leaves are on their way.
const BRANCHES_AHEAD: usize = 6;
/// A tree of a key's values up to this depth is not worth the way to another thread.
const SHALLOW: u16 = 2;

pub(super) struct Copier<'p> {
    pages: &'p Pages,
    ahead: &'p Ahead,
    file: FileWriter,
    seen: Runs,
    watch: Watch<'p>,
    /// A page on its way to the file.
    page: Vec<u8>,
}

/// A tree, and what was seen of it so far.
struct Tree {
    bulk: Bulk,
    want: Want,
    overflow_pages: u64,
    leaf_pages: u64,
}

impl<'p> Copier<'p> {
    pub fn new(pages: &'p Pages, ahead: &'p Ahead, file: FileWriter, watch: Watch<'p>) -> Self {
        let mut seen = Runs::default();
        seen.add(0, META_PAGES);
        let page = vec![0; pages.layout.page_size];
        Self { pages, ahead, file, seen, watch, page }
    }

    /// The main table, and so all others.
    pub fn main(&mut self, record: Table) -> Result<Table> {
        let want = Want::Keys { flags: record.flags, main: true };
        self.tree(&record, want).map_err(|error| error.of_table("main"))
    }

    pub fn finish(self, main: Table, txn: u64) -> Result<Summary> {
        self.file.seal(main, txn)
    }

    /// The record of the tree as it stands in the new file.
    fn tree(&mut self, record: &Table, want: Want) -> Result<Table> {
        let mut branches = Branches::new(record)?;
        let mut bulk = Bulk::new(record.flags, self.pages.layout);
        bulk.table.pad = record.pad;
        let mut tree = Tree { bulk, want, overflow_pages: 0, leaf_pages: 0 };
        if matches!(want, Want::Values(_)) && record.depth <= SHALLOW {
            while let Some(numbers) = branches.next(self.pages, &mut self.seen)? {
                let found = leaves(self.pages, &numbers, want)?;
                self.leaves(&mut tree, &found)?;
            }
        } else {
            self.long_tree(&mut tree, &mut branches)?;
        }
        self.close(tree, &branches, record)
    }

    fn long_tree(&mut self, tree: &mut Tree, branches: &mut Branches) -> Result<()> {
        let mut coming: VecDeque<Coming> = VecDeque::new();
        loop {
            while coming.len() < BRANCHES_AHEAD {
                let Some(numbers) = branches.next(self.pages, &mut self.seen)? else { break };
                coming.push_back(self.ahead.ask(numbers, tree.want));
            }
            let Some(next) = coming.pop_front() else { return Ok(()) };
            let found = next.wait()?;
            self.leaves(tree, &found)?;
            self.pages.give_back(found.into_iter().map(|leaf| leaf.view));
        }
    }

    fn close(&mut self, mut tree: Tree, branches: &Branches, record: &Table) -> Result<Table> {
        let seen = Table {
            branch_pages: branches.count,
            leaf_pages: tree.leaf_pages,
            overflow_pages: tree.overflow_pages,
            entries: tree.bulk.table.entries,
            ..*record
        };
        if seen != *record {
            let what = "a record with other counts than those of its tree";
            return Err(Error::corrupt(record.root, what));
        }
        tree.bulk.finish(&mut self.file)
    }

    fn leaves(&mut self, tree: &mut Tree, leaves: &[Leaf]) -> Result<()> {
        for leaf in leaves {
            self.leaf(tree, leaf)?;
        }
        let bytes = leaves.len() * self.pages.layout.page_size;
        if (self.watch)(bytes as u64) { Ok(()) } else { Err(cancelled()) }
    }

    fn leaf(&mut self, tree: &mut Tree, leaf: &Leaf) -> Result<()> {
        let mut moved = Vec::with_capacity(leaf.pointers.len());
        for (at, pointer) in &leaf.pointers {
            let bytes = self.follow(tree, pointer, leaf.view.key(*at))?;
            moved.push((leaf.view.data_start(*at), bytes));
        }
        self.page.copy_from_slice(leaf.view.bytes());
        for (place, bytes) in moved {
            self.page[place..place + bytes.len()].copy_from_slice(&bytes);
        }
        tree.leaf_pages += 1;
        tree.bulk.table.entries += leaf.entries;
        tree.bulk.hang_leaf(&mut self.file, &mut self.page, leaf.view.key(0))
    }

    /// Copies what the pointer leads to: what stands in its place in the new file.
    fn follow(&mut self, tree: &mut Tree, pointer: &Pointer, key: &[u8]) -> Result<Vec<u8>> {
        match pointer {
            Pointer::Large(first, size) => {
                let number = self.large(tree, *first, *size)?;
                Ok(number.to_ne_bytes().to_vec())
            }
            Pointer::Values(record) => {
                let kind = match record.pad as usize {
                    0 => Kind::Leaf,
                    size => Kind::Leaf2(size),
                };
                let copy = self.tree(record, Want::Values(kind))?;
                tree.bulk.table.entries += record.entries - 1; // The key counted as one.
                Ok(copy.encode().to_vec())
            }
            Pointer::Table(record) => {
                let want = Want::Keys { flags: record.flags, main: false };
                let copy = self.tree(record, want);
                let copy = copy.map_err(|error| error.of_table(&key.escape_ascii().to_string()))?;
                Ok(copy.encode().to_vec())
            }
        }
    }

    fn large(&mut self, tree: &mut Tree, first: u64, size: usize) -> Result<u64> {
        let value = self.pages.large(first, size)?;
        mark_run(&mut self.seen, value.first, value.pages)?;
        tree.overflow_pages += value.pages;
        tree.bulk.table.overflow_pages += self.pages.layout.overflow_pages(size);
        let pages = self.pages;
        if !(self.watch)(size as u64) {
            return Err(cancelled());
        }
        self.file.overflow_in_parts(size, |from, room| pages.part(value, from, room))
    }
}
