//! Trees written again, the trees that hang on a leaf before it.

use std::collections::VecDeque;

use super::ahead::ReadaheadPool;
use super::branches::{Branches, mark, mark_run};
use super::leaf::{Leaf, LeafContents, Pointer, leaves, only_branch};
use super::pages::{Large, Pages};
use super::sub_trees::{ReferencedData, ReferencedDataOfLeaves};
use super::{ProgressCallback, cancelled};
use crate::bulk::Bulk;
use crate::layout::META_PAGES;
use crate::reader::{OUT_OF_ORDER, Runs, other_counts, told};
use crate::{Error, FileWriter, Flags, Layout, Order, Reader, Result, Summary, Table};

/// Lowest branches whose leaves are on their way.
const BRANCHES_AHEAD: usize = 6;
/// Those whose leaves are there, and what hangs on them is on its way.
const BRANCHES_HERE: usize = 1;

pub(super) struct Copier<'p> {
    reader: &'p Reader,
    pages: &'p Pages,
    ahead: &'p ReadaheadPool,
    file: FileWriter,
    seen: Runs,
    watch: ProgressCallback<'p>,
    /// A page on its way to the file.
    page: Vec<u8>,
}

/// A tree, and what was seen of it so far.
struct Tree {
    bulk: Bulk,
    overflow_pages: u64,
    leaf_pages: u64,
    order: Order,
    /// The last key or value of the last leaf.
    last: Vec<u8>,
}

impl Tree {
    fn new(record: &Table, order: Order, layout: Layout) -> Self {
        let mut bulk = Bulk::new(record.flags, layout);
        bulk.table.pad = record.pad;
        Self { bulk, overflow_pages: 0, leaf_pages: 0, order, last: Vec::new() }
    }

    /// The leaf comes after all that came before.
    fn follow(&mut self, leaf: &Leaf) -> Result<()> {
        let (first, last) = (leaf.view.key(0), leaf.view.key(leaf.view.count - 1));
        if self.leaf_pages > 0 && self.order.compare(&self.last, first).is_ge() {
            return Err(Error::corrupt(leaf.number, OUT_OF_ORDER));
        }
        self.leaf_pages += 1;
        self.last.clear();
        self.last.extend_from_slice(last);
        Ok(())
    }

    /// A tree of a key's values as it stands with the key in the new file.
    fn values(&mut self, record: &Table, copy: &Table) -> Vec<u8> {
        self.bulk.table.entries += record.entries - 1; // The key counted as one.
        copy.encode().to_vec()
    }
}

impl<'p> Copier<'p> {
    pub fn new(
        reader: &'p Reader,
        pages: &'p Pages,
        ahead: &'p ReadaheadPool,
        file: FileWriter,
        watch: ProgressCallback<'p>,
    ) -> Self {
        let mut seen = Runs::default();
        seen.add(0, META_PAGES);
        let page = vec![0; pages.layout.page_size];
        Self { reader, pages, ahead, file, seen, watch, page }
    }

    /// The main table, and so all others.
    pub fn main(&mut self, record: Table) -> Result<Table> {
        let flags = record.flags;
        let (keys, values) = (flags.key_order(), flags.value_order());
        let want = LeafContents::Keys { flags, main: true, keys, values };
        self.tree(&record, want).map_err(|error| error.of_table("main"))
    }

    pub fn finish(self, main: Table, txn: u64) -> Result<Summary> {
        self.file.seal(main, txn)
    }

    /// The record of the tree as it stands in the new file.
    fn tree(&mut self, record: &Table, want: LeafContents) -> Result<Table> {
        let mut branches = Branches::new(record)?;
        let mut tree = Tree::new(record, want.order(), self.pages.layout);
        let (mut coming, mut here) = (VecDeque::new(), VecDeque::new());
        loop {
            while coming.len() < BRANCHES_AHEAD {
                let Some(numbers) = branches.next(self.pages, &mut self.seen)? else { break };
                coming.push_back(self.ahead.ask(move |pages| leaves(pages, &numbers, want)));
            }
            if let Some(next) = coming.pop_front() {
                let leaves = next.wait()?;
                let hanging = ReferencedDataOfLeaves::new(self.pages, self.ahead, &leaves);
                here.push_back((leaves, hanging));
            }
            if here.len() > BRANCHES_HERE || coming.is_empty() {
                let Some((leaves, hanging)) = here.pop_front() else { break };
                self.leaves(&mut tree, &leaves, hanging)?;
            }
        }
        self.close(tree, branches.count, record, want)
    }

    /// The same of one whose leaves are there.
    fn shallow_tree(
        &mut self,
        record: &Table,
        want: LeafContents,
        leaves: &[Leaf],
    ) -> Result<Table> {
        let branch = only_branch(record);
        let numbers = branch.into_iter().chain(leaves.iter().map(|leaf| leaf.number));
        mark(&mut self.seen, &numbers.collect::<Vec<_>>())?;
        let mut tree = Tree::new(record, want.order(), self.pages.layout);
        self.leaves(&mut tree, leaves, ReferencedDataOfLeaves::new(self.pages, self.ahead, &[]))?;
        self.close(tree, branch.is_some().into(), record, want)
    }

    fn close(
        &mut self,
        mut tree: Tree,
        branch_pages: u64,
        record: &Table,
        want: LeafContents,
    ) -> Result<Table> {
        let seen = Table {
            branch_pages,
            leaf_pages: tree.leaf_pages,
            overflow_pages: tree.overflow_pages,
            entries: tree.bulk.table.entries,
            ..*record
        };
        let values_of_a_key = matches!(want, LeafContents::Values(..));
        if seen != told(record, &seen, values_of_a_key) {
            return Err(other_counts(record));
        }
        tree.bulk.finish(&mut self.file)
    }

    fn leaves(
        &mut self,
        tree: &mut Tree,
        leaves: &[Leaf],
        mut hanging: ReferencedDataOfLeaves<'_>,
    ) -> Result<()> {
        for leaf in leaves {
            self.leaf(tree, leaf, &mut hanging)?;
        }
        self.tell(leaves.len() * self.pages.layout.page_size)
    }

    fn tell(&self, bytes: usize) -> Result<()> {
        if (self.watch)(bytes as u64) { Ok(()) } else { Err(cancelled()) }
    }

    fn leaf(
        &mut self,
        tree: &mut Tree,
        leaf: &Leaf,
        hanging: &mut ReferencedDataOfLeaves<'_>,
    ) -> Result<()> {
        tree.follow(leaf)?;
        let mut moved = Vec::with_capacity(leaf.pointers.len());
        for (at, pointer) in &leaf.pointers {
            let bytes = match hanging.next(pointer)? {
                Some(thing) => self.thing(tree, thing)?,
                None => self.follow(tree, pointer, leaf.view.key(*at))?,
            };
            moved.push((leaf.view.data_start(*at), bytes));
        }
        self.page.copy_from_slice(leaf.view.bytes());
        for (place, bytes) in moved {
            self.page[place..place + bytes.len()].copy_from_slice(&bytes);
        }
        tree.bulk.table.entries += leaf.entries;
        tree.bulk.attach_leaf(&mut self.file, &mut self.page, leaf.view.key(0))
    }

    /// Copies it: what stands in the place of its pointer in the new file.
    fn thing(&mut self, tree: &mut Tree, thing: ReferencedData) -> Result<Vec<u8>> {
        match thing {
            ReferencedData::Value { place, block, bytes } => {
                let size = bytes.len();
                self.value(tree, place, size)?;
                let number = self.file.overflow(&[&block[bytes]], size)?;
                Ok(number.to_ne_bytes().to_vec())
            }
            ReferencedData::Tree { record, want, leaves } => {
                let copy = self.shallow_tree(&record, want, &leaves)?;
                Ok(tree.values(&record, &copy))
            }
        }
    }

    /// The same of what the pointer leads to.
    fn follow(&mut self, tree: &mut Tree, pointer: &Pointer, key: &[u8]) -> Result<Vec<u8>> {
        match pointer {
            Pointer::Large(first, size) => {
                let number = self.large(tree, *first, *size)?;
                Ok(number.to_ne_bytes().to_vec())
            }
            Pointer::Values(record, want) => {
                let copy = self.tree(record, *want)?;
                Ok(tree.values(record, &copy))
            }
            Pointer::Table(record) => {
                let want = self.keys(record.flags, key);
                let copy = self.tree(record, want);
                let copy = copy.map_err(|error| error.of_table(&key.escape_ascii().to_string()))?;
                Ok(copy.encode().to_vec())
            }
        }
    }

    fn keys(&self, flags: Flags, name: &[u8]) -> LeafContents {
        let (keys, values) = self.reader.orders_of(name, flags);
        LeafContents::Keys { flags, main: false, keys, values }
    }

    fn large(&mut self, tree: &mut Tree, first: u64, size: usize) -> Result<u64> {
        let place = self.pages.large(first, size)?;
        self.value(tree, place, size)?;
        let pages = self.pages;
        self.file.overflow_in_parts(size, |from, room| pages.part(place, from, room))
    }

    /// Takes a value of this size on overflow pages into account.
    fn value(&mut self, tree: &mut Tree, place: Large, size: usize) -> Result<()> {
        mark_run(&mut self.seen, place.first, place.pages)?;
        tree.overflow_pages += place.pages;
        tree.bulk.table.overflow_pages += self.pages.layout.overflow_pages(size);
        self.tell(size)
    }
}
