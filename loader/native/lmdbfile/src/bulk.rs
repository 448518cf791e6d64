//! Builds a B+ tree from its leaves up. Each page is written as soon as it is full.

use crate::layout::{Header, META_PAGES, NODE_HEADER, even, page, read_u16};
use crate::{FileWriter, Flags, Layout, Result, Table};

/// A tree under construction: the open page of each level, and the counts of written pages.
pub(crate) struct Bulk {
    layout: Layout,
    pub leaf: Page,
    /// The open branch of each level, from the lowest level up.
    branches: Vec<Branch>,
    /// The record of the tree, with the counts so far.
    pub table: Table,
}

struct Branch {
    page: Page,
    /// The key of the first child, for the branch above. In its own branch, LMDB requires an empty first key.
    first: Vec<u8>,
}

impl Bulk {
    pub fn new(flags: Flags, layout: Layout) -> Self {
        let leaf = Page::new(layout, page::LEAF);
        Self { layout, leaf, branches: Vec::new(), table: Table::empty(flags) }
    }

    /// Begins another tree. `fixed` is the size in bytes of each value on LEAF2 pages, or 0 for leaves with nodes.
    pub fn clear(&mut self, flags: Flags, fixed: usize) {
        self.leaf.clear(fixed);
        self.branches.clear();
        self.table = Table::empty(flags);
        self.table.pad = u32::try_from(fixed).unwrap_or(0);
    }

    /// Adds a node to the open leaf, or if that is full to a new leaf. `value` may be a `LargePointer` instead.
    #[inline]
    pub fn add(&mut self, file: &mut FileWriter, header: [u8; 8], key: &[u8], value: &[u8]) -> Result<()> {
        let pad = self.layout.key_pad(key.len());
        if !self.leaf.has_room(key.len() + pad + value.len()) {
            self.flush_leaf(file)?;
        }
        self.leaf.push(header, key, pad, value);
        Ok(())
    }

    /// Writes the open leaf unless it is empty, and begins another.
    pub fn flush_leaf(&mut self, file: &mut FileWriter) -> Result<()> {
        if self.leaf.count > 0 {
            let number = self.write_leaf(file)?;
            let first = self.leaf.first_value().to_vec();
            self.leaf.clear(self.table.pad as usize);
            self.add_child(file, 0, number, first)?;
        }
        Ok(())
    }

    /// Adds and writes a leaf page that the caller built. `first` is its first key, or on a LEAF2 page its first value.
    pub fn attach_leaf(&mut self, file: &mut FileWriter, page: &mut [u8], first: &[u8]) -> Result<()> {
        let number = file.append(page)?;
        self.table.leaf_pages += 1;
        self.add_child(file, 0, number, first.to_vec())
    }

    /// Adds a leaf page with this single key. Returns the number of the page, which the caller writes later.
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

    /// Adds a child to the open branch of `level`, 0 being the lowest level of branches. `key` is the child's first
    /// key.
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

    /// Writes the open pages, and returns the record of the tree, in which the caller sets `entries`.
    pub fn finish(&mut self, file: &mut FileWriter) -> Result<Table> {
        if self.branches.is_empty() && self.leaf.count > 0 {
            self.table.root = self.write_leaf(file)?;
            self.table.depth = 1;
            return Ok(self.table);
        }
        self.flush_leaf(file)?;
        let mut level = 0;
        while level < self.branches.len() {
            let is_top = level + 1 == self.branches.len();
            let only_child = self.branches[level].page.only_child();
            self.table.depth = u16::try_from(level).unwrap_or(u16::MAX) + 2;
            match only_child.filter(|_| is_top) {
                // The tree has one leaf, which was written before it was clear that no other would follow.
                Some(child) => {
                    self.table.root = child;
                    self.table.depth -= 1;
                }
                None => self.table.root = self.write_branch(file, level)?,
            }
            if !is_top {
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
        let is_first = self.page.count == 0;
        let stored_key = if is_first { &[][..] } else { &key[..] };
        debug_assert!(self.page.has_room(stored_key.len()));
        let header = Layout::branch_node(child, stored_key.len());
        self.page.push(header, stored_key, 0, &[]);
        if is_first {
            self.first = key;
        }
    }
}

/// A page under construction: a leaf or branch with nodes, or a leaf with values of one size (LEAF2).
pub(crate) struct Page {
    layout: Layout,
    bytes: Vec<u8>,
    flags: u16,
    /// End of the pointers; on a LEAF2 page, end of the values.
    lower: usize,
    /// Start of the nodes.
    upper: usize,
    count: usize,
    /// On a LEAF2 page, the size of each value in bytes; otherwise 0.
    fixed: usize,
}

impl Page {
    pub fn new(layout: Layout, flags: u16) -> Self {
        let bytes = vec![0; layout.page_size];
        let (lower, upper) = (layout.page_header(), layout.page_size);
        Self { layout, bytes, flags, lower, upper, count: 0, fixed: 0 }
    }

    /// Empties the page. `fixed` is the size in bytes of each value of a LEAF2 page, or 0 for a page with nodes.
    pub fn clear(&mut self, fixed: usize) {
        (self.lower, self.upper) = (self.layout.page_header(), self.layout.page_size);
        (self.count, self.fixed) = (0, fixed);
    }

    /// Returns whether there is room for a node with `size` bytes of key, padding and value.
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
        let (room, mut rest) = rest.split_at_mut(key.len());
        room.copy_from_slice(key);
        if pad > 0 {
            rest[..pad].fill(0);
            rest = &mut rest[pad..];
        }
        let (room, rest) = rest.split_at_mut(value.len());
        room.copy_from_slice(value);
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
        let (child, size) = (Layout::child(node, 0), usize::from(read_u16(node, 6)));
        let key = node[NODE_HEADER..NODE_HEADER + size].to_vec();
        self.upper += even(NODE_HEADER + size);
        (child, key)
    }

    /// Returns the child if the branch has exactly one.
    pub fn only_child(&self) -> Option<u64> {
        (self.count == 1).then(|| Layout::child(&self.bytes, self.upper))
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

    /// Returns the first key, or on a LEAF2 page the first value.
    pub fn first_value(&self) -> &[u8] {
        if self.fixed > 0 {
            let start = self.layout.page_header();
            return &self.bytes[start..start + self.fixed];
        }
        let at = self.layout.pointer(&self.bytes, self.layout.page_header());
        let size = usize::from(read_u16(&self.bytes, at + 6));
        &self.bytes[at + 8..at + 8 + size]
    }

    /// Returns the complete page, except for its number.
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

    /// Returns the size in bytes of a sub-page with the values of this page.
    pub fn sub_page_size(&self) -> usize {
        if self.fixed > 0 { even(self.lower) } else { self.lower + self.layout.page_size - self.upper }
    }

    /// Overwrites `sub_page` with a sub-page that has the values of this page. It belongs in the node of their key.
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
        // LMDB never reads the number of a sub-page; it must only differ from the numbers of the meta pages.
        self.layout.put_number(sub_page, META_PAGES, 0);
        self.layout.put_header(sub_page, header);
    }

    /// Corrects the pointers of a sub-page, in which the nodes follow the pointers without a gap.
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

    /// Returns the header of a LEAF2 page. LMDB counts `lower` and `upper` as if the page had a pointer for each value.
    fn fixed_header(&self, size: usize, flags: u16) -> Header {
        let lower = self.layout.page_header() + 2 * self.count;
        let upper = size + 2 * self.count - self.count * self.fixed;
        #[allow(clippy::cast_possible_truncation, reason = "a value is no longer than a page")]
        Header { pad: self.fixed as u16, flags, lower, upper }
    }
}
