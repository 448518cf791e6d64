//! Trees written again, the trees that hang on a leaf before it.

use std::collections::VecDeque;

use workers::Pool;

use super::branches::{Branches, Leaf, leaves, mark, mark_run, only_branch};
use super::sub_trees::{ReferencedData, ReferencedDataOfLeaves};
use super::{ProgressCallback, cancelled, wait};

use crate::bulk::Bulk;
use crate::layout::{LargePointer, MAX_PAGE_HEADER, META_PAGES};
use crate::reader::{Pointer, Runs, TreeRules};
use crate::source::{Large, LargeNode, PageSource};
use crate::{FileWriter, Layout, Reader, Result, Table};

/// Lowest branches whose leaves are on their way.
const BRANCHES_AHEAD: usize = 6;
/// Those whose leaves are there, and what hangs on them is on its way.
const BRANCHES_HERE: usize = 1;

pub(super) struct Copier<'p> {
    reader: &'p Reader,
    pages: &'p PageSource,
    ahead: &'p Pool<PageSource>,
    file: FileWriter,
    seen: Runs,
    watch: ProgressCallback<'p>,
    /// A page on its way to the file.
    page: Vec<u8>,
}

/// A tree, and what was seen of it so far.
struct Tree {
    rules: TreeRules,
    bulk: Bulk,
    overflow_pages: u64,
    leaf_pages: u64,
}

impl Tree {
    fn new(record: &Table, rules: TreeRules, layout: Layout) -> Self {
        let mut bulk = Bulk::new(record.flags, layout);
        bulk.table.pad = record.pad;
        Self { rules, bulk, overflow_pages: 0, leaf_pages: 0 }
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
        pages: &'p PageSource,
        ahead: &'p Pool<PageSource>,
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
        let main = self.tree(&record, TreeRules::main(record.flags));
        main.map_err(|error| error.of_table("main"))
    }

    pub fn into_file(self) -> FileWriter {
        self.file
    }

    /// The record of the tree as it stands in the new file.
    fn tree(&mut self, record: &Table, rules: TreeRules) -> Result<Table> {
        let mut branches = Branches::new(record, rules)?;
        let mut tree = Tree::new(record, rules, self.pages.layout);
        let (mut coming, mut here) = (VecDeque::new(), VecDeque::new());
        loop {
            while coming.len() < BRANCHES_AHEAD {
                let Some(siblings) = branches.next(self.pages, &mut self.seen)? else { break };
                coming.push_back(self.ahead.ask(move |pages| leaves(pages, &siblings, &rules)));
            }
            if let Some(next) = coming.pop_front() {
                let leaves = wait(next)?;
                let hanging = ReferencedDataOfLeaves::new(self.pages, self.ahead, rules, &leaves);
                here.push_back((leaves, hanging));
            }
            if here.len() > BRANCHES_HERE || coming.is_empty() {
                let Some((leaves, hanging)) = here.pop_front() else { break };
                self.leaves(&mut tree, &leaves, hanging)?;
            }
        }
        self.close(tree, branches.count, record)
    }

    /// The same of one whose leaves are there.
    fn shallow_tree(&mut self, record: &Table, rules: TreeRules, leaves: &[Leaf]) -> Result<Table> {
        let branch = only_branch(record);
        let numbers = branch.into_iter().chain(leaves.iter().map(|leaf| leaf.number));
        mark(&mut self.seen, &numbers.collect::<Vec<_>>())?;
        let mut tree = Tree::new(record, rules, self.pages.layout);
        let nothing = ReferencedDataOfLeaves::new(self.pages, self.ahead, rules, &[]);
        self.leaves(&mut tree, leaves, nothing)?;
        self.close(tree, branch.is_some().into(), record)
    }

    fn close(&mut self, mut tree: Tree, branch_pages: u64, record: &Table) -> Result<Table> {
        let Tree { leaf_pages, overflow_pages, .. } = tree;
        let entries = tree.bulk.table.entries;
        let seen = Table { branch_pages, leaf_pages, overflow_pages, entries, ..*record };
        tree.rules.check_record(record, &seen)?;
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
        tree.leaf_pages += 1;
        let mut moved = Vec::with_capacity(leaf.pointers.len());
        for (at, pointer) in &leaf.pointers {
            let bytes = match hanging.next(pointer)? {
                Some(thing) => self.thing(tree, thing)?,
                None => self.follow(tree, pointer, leaf.view.key((*at).into()))?,
            };
            moved.push((leaf.view.data_start((*at).into()), bytes));
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
                let pointer = self.file.overflow(&block[bytes])?;
                Ok(pointer.as_ref().to_vec())
            }
            ReferencedData::Tree { record, leaves } => {
                let rules = tree.rules.values(record.pad);
                let copy = self.shallow_tree(&record, rules, &leaves)?;
                Ok(tree.values(&record, &copy))
            }
        }
    }

    /// The same of what the pointer leads to.
    fn follow(&mut self, tree: &mut Tree, pointer: &Pointer, key: &[u8]) -> Result<Vec<u8>> {
        match pointer {
            Pointer::Large(node) => Ok(self.large(tree, *node)?.as_ref().to_vec()),
            Pointer::Values(record) => {
                let copy = self.tree(record, tree.rules.values(record.pad))?;
                Ok(tree.values(record, &copy))
            }
            Pointer::Table(record) => {
                let copy = self.tree(record, self.reader.rules_of(key, record.flags));
                let name = self.pages.layout.name(key).escape_ascii();
                let copy = copy.map_err(|error| error.of_table(&name.to_string()))?;
                Ok(copy.encode().to_vec())
            }
        }
    }

    fn large(&mut self, tree: &mut Tree, node: LargeNode) -> Result<LargePointer> {
        let LargeNode { first, size, .. } = node;
        let mut header = [0; MAX_PAGE_HEADER];
        let pages = self.pages;
        pages.check(first)?;
        pages.read_at(&mut header, first * pages.layout.page_size as u64, first)?;
        let place = pages.large(&header, node)?;
        self.value(tree, place, size)?;
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
