//! A B+ tree built from its leaves up. Each page is written as soon as it is full.

use crate::layout::{Header, NODE_HEADER, even, page, read_u16};
use crate::meta::NO_PAGE;
use crate::{FileWriter, Flags, Layout, Result, Table};

/// The page under construction on each level, and the counts of the pages and values written so far.
pub(crate) struct Bulk {
    layout: Layout,
    pub leaf: Page,
    branches: Vec<Branch>,
    pub table: Table,
}

struct Branch {
    page: Page,
    /// Offset of the first node's key: LMDB wants that key to be empty, so it is kept here instead.
    first: Vec<u8>,
}

impl Bulk {
    pub fn new(flags: Flags, layout: Layout) -> Self {
        let leaf = Page::new(layout, page::LEAF);
        Self { layout, leaf, branches: Vec::new(), table: Table::empty(flags) }
    }

    /// Begins another tree. `fixed` is the size of every value on LEAF2 pages, or 0 for leaves of nodes.
    pub fn clear(&mut self, flags: Flags, fixed: usize) {
        self.leaf.clear(fixed);
        self.branches.clear();
        self.table = Table::empty(flags);
        self.table.pad = u32::try_from(fixed).unwrap_or(0);
    }

    /// Returns whether nothing has been written to the file yet.
    pub fn on_one_page(&self) -> bool {
        self.table.leaf_pages == 0
    }

    /// Adds a node to the leaf, or to a new leaf if this one is full. `value` is the value or its large pointer.
    #[inline]
    pub fn add(&mut self, file: &mut FileWriter, header: [u8; 8], key: &[u8], value: &[u8]) -> Result<()> {
        let pad = self.layout.key_pad(key.len());
        if !self.leaf.has_room(key.len() + pad + value.len()) {
            self.flush_leaf(file)?;
        }
        self.leaf.push(header, key, pad, value);
        Ok(())
    }

    /// Writes the leaf unless it is empty, and begins another.
    pub fn flush_leaf(&mut self, file: &mut FileWriter) -> Result<()> {
        if self.leaf.count() > 0 {
            let number = self.write_leaf(file)?;
            let first = self.leaf.first_value().to_vec();
            self.leaf.clear(self.table.pad as usize);
            self.add_child(file, 0, number, first)?;
        }
        Ok(())
    }

    /// Writes a leaf page that the caller built. `first` is its first key or value.
    pub fn attach_leaf(&mut self, file: &mut FileWriter, page: &mut [u8], first: &[u8]) -> Result<()> {
        let number = file.append(page)?;
        self.table.leaf_pages += 1;
        self.add_child(file, 0, number, first.to_vec())
    }

    /// Returns the number of a new leaf page that is written later.
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

    /// Adds a page of `level` to the branch above it.
    ///
    /// A full branch passes its last child on to the next branch, so that no branch ever has a single child, which LMDB
    /// would report as corruption (`mdb_page_search_root`).
    fn add_child(&mut self, file: &mut FileWriter, level: usize, child: u64, key: Vec<u8>) -> Result<()> {
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

    /// Writes the open page of every level. The caller sets `entries`.
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
                // This single leaf was written before it was clear that no other would follow.
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
    /// Adds a child, for which there must be room.
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

/// A leaf or branch of nodes, or a leaf of values of one size (LEAF2).
pub(crate) struct Page {
    layout: Layout,
    bytes: Vec<u8>,
    flags: u16,
    /// End of the pointers, or of the values on a LEAF2 page.
    lower: usize,
    /// Start of the nodes.
    upper: usize,
    count: usize,
    /// Value size of a LEAF2 page.
    fixed: usize,
}

impl Page {
    pub fn new(layout: Layout, flags: u16) -> Self {
        let bytes = vec![0; layout.page_size];
        let (lower, upper) = (layout.page_header(), layout.page_size);
        Self { layout, bytes, flags, lower, upper, count: 0, fixed: 0 }
    }

    /// Empties the page. `fixed` is the size of every value of a LEAF2 page.
    pub fn clear(&mut self, fixed: usize) {
        (self.lower, self.upper) = (self.layout.page_header(), self.layout.page_size);
        (self.count, self.fixed) = (0, fixed);
    }

    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns whether a node with this many bytes of key and value fits.
    #[inline]
    pub fn has_room(&self, size: usize) -> bool {
        self.upper - self.lower >= even(NODE_HEADER + size) + 2
    }

    /// Adds a node, which must fit: its header, the key, `pad` bytes of zero, and the value.
    #[inline]
    pub fn push(&mut self, header: [u8; 8], key: &[u8], pad: usize, value: &[u8]) {
        let start = self.upper - even(header.len() + key.len() + pad + value.len());
        let (head, rest) = self.bytes[start..self.upper].split_at_mut(header.len());
        head.copy_from_slice(&header);
        let (name, mut rest) = rest.split_at_mut(key.len());
        name.copy_from_slice(key);
        if pad > 0 {
            rest[..pad].fill(0);
            rest = &mut rest[pad..];
        }
        let (place, rest) = rest.split_at_mut(value.len());
        place.copy_from_slice(value);
        if let Some(last) = rest.first_mut() {
            *last = 0;
        }
        self.upper = start;
        self.bytes[self.lower..self.lower + 2].copy_from_slice(&self.layout.pointer_to(start));
        self.lower += 2;
        self.count += 1;
    }

    /// Removes the last node of a branch and returns its child and key.
    pub fn pop_branch(&mut self) -> (u64, Vec<u8>) {
        self.lower -= 2;
        self.count -= 1;
        let node = &self.bytes[self.upper..];
        let half = |at| u64::from(read_u16(node, at));
        let child = half(0) | half(2) << 16 | half(4) << 32;
        let size = usize::from(read_u16(node, 6));
        let key = node[8..8 + size].to_vec();
        self.upper += even(8 + size);
        (child, key)
    }

    /// Returns the child of a branch that has exactly one.
    pub fn only_child(&self) -> Option<u64> {
        let half = |at| u64::from(read_u16(&self.bytes, self.upper + at));
        (self.count == 1).then(|| half(0) | half(2) << 16 | half(4) << 32)
    }

    /// Returns the number of further values that fit on a LEAF2 page.
    #[inline]
    pub fn fixed_room(&self) -> usize {
        (self.layout.page_size - self.lower) / self.fixed
    }

    /// Extends a LEAF2 page by `count` values, which must fit, and returns their bytes to be filled.
    #[inline]
    pub fn push_fixed(&mut self, count: usize) -> &mut [u8] {
        let start = self.lower;
        self.lower += count * self.fixed;
        self.count += count;
        &mut self.bytes[start..self.lower]
    }

    /// Returns the first value.
    pub fn first_value(&self) -> &[u8] {
        if self.fixed > 0 {
            let start = self.layout.page_header();
            return &self.bytes[start..start + self.fixed];
        }
        let at = self.layout.pointer(&self.bytes, self.layout.page_header());
        let size = usize::from(read_u16(&self.bytes, at + 6));
        &self.bytes[at + 8..at + 8 + size]
    }

    /// Returns the finished page, except for its page number.
    pub fn sealed(&mut self) -> &mut [u8] {
        let header = if self.fixed > 0 {
            self.bytes[self.lower..].fill(0);
            self.fixed_header(self.layout.page_size, page::LEAF | page::LEAF2)
        } else {
            self.bytes[self.lower..self.upper].fill(0);
            self.node_header(self.upper, self.flags)
        };
        self.layout.put_header(&mut self.bytes, header);
        &mut self.bytes
    }

    /// Returns the size of the sub-page that would hold these values.
    pub fn sub_page_size(&self) -> usize {
        if self.fixed > 0 { even(self.lower) } else { self.lower + self.layout.page_size - self.upper }
    }

    /// Writes the values as a sub-page, which becomes the value of their key's node.
    pub fn sub_page(&self, sub_page: &mut Vec<u8>) {
        let flags = self.layout.sub_page_flags();
        sub_page.clear();
        sub_page.extend_from_slice(&self.bytes[..self.lower]);
        let header = if self.fixed > 0 {
            sub_page.resize(even(self.lower), 0);
            self.fixed_header(sub_page.len(), flags | page::LEAF2)
        } else {
            sub_page.extend_from_slice(&self.bytes[self.upper..]);
            self.move_pointers(sub_page);
            self.node_header(self.lower, flags)
        };
        // LMDB never reads the number of a sub-page; it only has to be above those of the meta pages.
        self.layout.put_number(sub_page, crate::layout::META_PAGES, 0);
        self.layout.put_header(sub_page, header);
    }

    /// Moves the nodes to just after the pointers, since a sub-page has no free room.
    fn move_pointers(&self, sub_page: &mut [u8]) {
        let gap = self.upper - self.lower;
        for pointer in sub_page[self.layout.page_header()..self.lower].chunks_exact_mut(2) {
            let at = self.layout.pointer(pointer, 0) - gap;
            pointer.copy_from_slice(&self.layout.pointer_to(at));
        }
    }

    fn node_header(&self, upper: usize, flags: u16) -> Header {
        Header { pad: 0, flags, lower: self.lower, upper }
    }

    /// Although LEAF2 pages have no pointers, LMDB keeps `lower` and `upper` as if each value had one.
    fn fixed_header(&self, size: usize, flags: u16) -> Header {
        let lower = self.layout.page_header() + 2 * self.count;
        let upper = size + 2 * self.count - self.count * self.fixed;
        #[allow(clippy::cast_possible_truncation)] // A value is no longer than a page.
        Header { pad: self.fixed as u16, flags, lower, upper }
    }
}
