//! A B+ tree built from its leaves up; a page is written as soon as it is full.

use crate::layout::page;
use crate::page::Page;
use crate::table::NO_PAGE;
use crate::{FileWriter, Flags, Layout, Result, Table};

/// The page in the making on each level, and the counts of what is written.
#[derive(Debug)]
pub(crate) struct Bulk {
    layout: Layout,
    pub leaf: Page,
    branches: Vec<Branch>,
    pub table: Table,
}

#[derive(Debug)]
struct Branch {
    page: Page,
    /// Where the page begins; its own first key is left empty, as LMDB wants it.
    first: Vec<u8>,
}

impl Bulk {
    pub fn new(flags: Flags, layout: Layout) -> Self {
        let leaf = Page::new(layout, page::LEAF);
        Self { layout, leaf, branches: Vec::new(), table: Table::empty(flags) }
    }

    /// Begins another tree. `fixed`: the size of every value, 0 for leaves of nodes.
    pub fn clear(&mut self, flags: Flags, fixed: usize) {
        self.leaf.clear(fixed);
        self.branches.clear();
        self.table = Table::empty(flags);
        self.table.pad = u32::try_from(fixed).unwrap_or(0);
    }

    /// Nothing has been written yet.
    pub fn on_one_page(&self) -> bool {
        self.table.leaf_pages == 0
    }

    /// Adds a node to the leaf, on a new one when this one is full. `value`: or what stands for it.
    #[inline]
    pub fn add(
        &mut self,
        file: &mut FileWriter,
        header: [u8; 8],
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let pad = self.layout.key_pad(key.len());
        if !self.leaf.has_room(key.len() + pad + value.len()) {
            self.flush_leaf(file)?;
        }
        self.leaf.push(header, key, pad, value);
        Ok(())
    }

    /// Writes the leaf, if anything is on it, for another to be filled.
    pub fn flush_leaf(&mut self, file: &mut FileWriter) -> Result<()> {
        if self.leaf.count() > 0 {
            let number = self.write_leaf(file)?;
            let first = self.leaf.first_value().to_vec();
            self.leaf.clear(self.table.pad as usize);
            self.add_child(file, 0, number, first)?;
        }
        Ok(())
    }

    /// Writes a leaf that is no work of ours. `first`: its first key or value.
    pub fn attach_leaf(
        &mut self,
        file: &mut FileWriter,
        page: &mut [u8],
        first: &[u8],
    ) -> Result<()> {
        let number = file.append(page)?;
        self.table.leaf_pages += 1;
        self.add_child(file, 0, number, first.to_vec())
    }

    /// A leaf that is written late: its number.
    pub fn reserve_leaf(&mut self, file: &mut FileWriter, key: &[u8]) -> Result<u64> {
        self.flush_leaf(file)?;
        let number = file.reserve()?;
        self.table.leaf_pages += 1;
        self.add_child(file, 0, number, key.to_vec())?;
        Ok(number)
    }

    fn write_leaf(&mut self, file: &mut FileWriter) -> Result<u64> {
        self.table.leaf_pages += 1;
        file.append(self.leaf.sealed())
    }

    /// Hangs a page of `level` below the branch above it.
    ///
    /// A branch that is full gives its last child to the next one, so that no branch ever has
    /// a single child, which LMDB would take for damage (`mdb_page_search_root`).
    fn add_child(
        &mut self,
        file: &mut FileWriter,
        level: usize,
        child: u64,
        key: Vec<u8>,
    ) -> Result<()> {
        if level == self.branches.len() {
            let page = Page::new(self.layout, page::BRANCH);
            self.branches.push(Branch { page, first: Vec::new() });
        }
        let branch = &mut self.branches[level];
        if branch.page.has_room(key.len()) {
            branch.add(child, key);
            return Ok(());
        }
        let (last, last_key) = branch.page.pop_branch();
        let number = self.write_branch(file, level)?;
        let branch = &mut self.branches[level];
        branch.page.clear(0);
        let first = std::mem::take(&mut branch.first);
        branch.add(last, last_key);
        branch.add(child, key);
        self.add_child(file, level + 1, number, first)
    }

    fn write_branch(&mut self, file: &mut FileWriter, level: usize) -> Result<u64> {
        self.table.branch_pages += 1;
        file.append(self.branches[level].page.sealed())
    }

    /// Writes what is left on every level. `entries` is for the caller to set.
    pub fn finish(&mut self, file: &mut FileWriter) -> Result<Table> {
        if self.branches.is_empty() {
            if self.leaf.count() > 0 {
                self.table.root = self.write_leaf(file)?;
                self.table.depth = 1;
            }
            return Ok(self.table);
        }
        self.flush_leaf(file)?;
        self.table.root = NO_PAGE;
        let mut level = 0;
        while level < self.branches.len() {
            let top = level + 1 == self.branches.len();
            let only = self.branches[level].page.only_child();
            self.table.depth = u16::try_from(level).unwrap_or(u16::MAX) + 2;
            match only.filter(|_| top) {
                // A single leaf that was written before anybody knew that it would be the only one.
                Some(child) => {
                    self.table.root = child;
                    self.table.depth -= 1;
                }
                None => self.table.root = self.write_branch(file, level)?,
            }
            if !top {
                let first = std::mem::take(&mut self.branches[level].first);
                self.add_child(file, level + 1, self.table.root, first)?;
            }
            level += 1;
        }
        Ok(self.table)
    }
}

impl Branch {
    /// The child must fit.
    fn add(&mut self, child: u64, key: Vec<u8>) {
        let empty = self.page.count() == 0;
        let key_here = if empty { &[][..] } else { &key[..] };
        debug_assert!(self.page.has_room(key_here.len()));
        let header = Layout::branch_node(child, key_here.len());
        self.page.push(header, key_here, 0, &[]);
        if empty {
            self.first = key;
        }
    }
}
