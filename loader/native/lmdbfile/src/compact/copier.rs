//! Copies trees. The data that a leaf refers to are written before the leaf.

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

/// Number of groups of leaves that are being read at a time.
const BRANCHES_AHEAD: usize = 6;
/// Number of groups of leaves that have been read, and whose referenced data are being read.
const BRANCHES_HERE: usize = 1;

pub(super) struct Copier<'p> {
    reader: &'p Reader,
    pages: &'p PageSource,
    ahead: &'p Pool<PageSource>,
    pub file: FileWriter,
    seen: Runs,
    watch: ProgressCallback<'p>,
    /// Buffer for the page that is being copied.
    page: Vec<u8>,
}

/// A tree that is being copied.
struct Tree {
    rules: TreeRules,
    bulk: Bulk,
    /// Number of overflow pages of the original.
    overflow_pages: u64,
    /// Number of leaf pages of the original.
    leaf_pages: u64,
}

impl Tree {
    fn new(record: &Table, rules: TreeRules, layout: Layout) -> Self {
        let mut bulk = Bulk::new(record.flags, layout);
        bulk.table.pad = record.pad;
        Self { rules, bulk, overflow_pages: 0, leaf_pages: 0 }
    }

    /// Counts the values of a copied tree of values, and returns the encoded record of the copy.
    fn values(&mut self, record: &Table, copy: &Table) -> Vec<u8> {
        self.bulk.table.entries += record.entries - 1; // The leaf has counted one.
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

    /// Copies the main table, and with it all other tables.
    pub fn main(&mut self, record: Table) -> Result<Table> {
        let main = self.tree(&record, TreeRules::main(record.flags));
        main.map_err(|error| error.of_table("main"))
    }

    /// Copies a tree and returns its record in the new file.
    fn tree(&mut self, record: &Table, rules: TreeRules) -> Result<Table> {
        let mut branches = Branches::new(record, rules)?;
        let mut tree = Tree::new(record, rules, self.pages.layout);
        let (mut reading, mut ready) = (VecDeque::new(), VecDeque::new());
        loop {
            while reading.len() < BRANCHES_AHEAD {
                let Some(siblings) = branches.next(self.pages, &mut self.seen)? else { break };
                reading.push_back(self.ahead.submit(move |pages| leaves(pages, &siblings, &rules)));
            }
            if let Some(next) = reading.pop_front() {
                let leaves = wait(next)?;
                let referenced = ReferencedDataOfLeaves::new(self.pages, self.ahead, rules, &leaves);
                ready.push_back((leaves, referenced));
            }
            if ready.len() > BRANCHES_HERE || reading.is_empty() {
                let Some((leaves, referenced)) = ready.pop_front() else { break };
                self.leaves(&mut tree, &leaves, referenced)?;
            }
        }
        self.close(tree, branches.count, record)
    }

    /// Copies a tree whose leaves have been read, and returns its record in the new file.
    fn shallow_tree(&mut self, record: &Table, rules: TreeRules, leaves: &[Leaf]) -> Result<Table> {
        let branch = only_branch(record);
        let numbers = branch.into_iter().chain(leaves.iter().map(|leaf| leaf.number));
        mark(&mut self.seen, &numbers.collect::<Vec<_>>())?;
        let mut tree = Tree::new(record, rules, self.pages.layout);
        let nothing = ReferencedDataOfLeaves::new(self.pages, self.ahead, rules, &[]);
        self.leaves(&mut tree, leaves, nothing)?;
        self.close(tree, branch.is_some().into(), record)
    }

    /// Checks the counts of the original, and returns the record of the copy.
    fn close(&mut self, mut tree: Tree, branch_pages: u64, record: &Table) -> Result<Table> {
        let Tree { leaf_pages, overflow_pages, .. } = tree;
        let entries = tree.bulk.table.entries;
        let seen = Table { branch_pages, leaf_pages, overflow_pages, entries, ..*record };
        tree.rules.check_record(record, &seen)?;
        tree.bulk.finish(&mut self.file)
    }

    fn leaves(&mut self, tree: &mut Tree, leaves: &[Leaf], mut referenced: ReferencedDataOfLeaves<'_>) -> Result<()> {
        for leaf in leaves {
            self.leaf(tree, leaf, &mut referenced)?;
        }
        self.report(leaves.len() * self.pages.layout.page_size)
    }

    fn report(&self, bytes: usize) -> Result<()> {
        if (self.watch)(bytes as u64) { Ok(()) } else { Err(cancelled()) }
    }

    fn leaf(&mut self, tree: &mut Tree, leaf: &Leaf, referenced: &mut ReferencedDataOfLeaves<'_>) -> Result<()> {
        tree.leaf_pages += 1;
        let mut moved = Vec::with_capacity(leaf.pointers.len());
        for (at, pointer) in &leaf.pointers {
            let bytes = match referenced.next(pointer)? {
                Some(data) => self.referenced_data(tree, data)?,
                None => self.follow(tree, pointer, leaf.view.key((*at).into()))?,
            };
            moved.push((leaf.view.data_start((*at).into()), bytes));
        }
        self.page.copy_from_slice(leaf.view.bytes());
        for (start, bytes) in moved {
            self.page[start..start + bytes.len()].copy_from_slice(&bytes);
        }
        tree.bulk.table.entries += leaf.entries;
        tree.bulk.attach_leaf(&mut self.file, &mut self.page, leaf.view.key(0))
    }

    /// Writes referenced data that have been read, and returns the bytes that replace the pointer in the new file.
    fn referenced_data(&mut self, tree: &mut Tree, data: ReferencedData) -> Result<Vec<u8>> {
        match data {
            ReferencedData::Value { location, block, bytes } => {
                let size = bytes.len();
                self.value(tree, location, size)?;
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

    /// Reads and copies the data that the pointer refers to, and returns the bytes that replace the pointer in the new
    /// file.
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
        let location = pages.large(&header, node)?;
        self.value(tree, location, size)?;
        self.file.overflow_in_parts(size, |from, room| pages.part(location, from, room))
    }

    /// Counts the overflow pages of a value of `size` bytes.
    fn value(&mut self, tree: &mut Tree, location: Large, size: usize) -> Result<()> {
        mark_run(&mut self.seen, location.first, location.pages)?;
        tree.overflow_pages += location.pages;
        tree.bulk.table.overflow_pages += self.pages.layout.overflow_pages(size);
        self.report(size)
    }
}
