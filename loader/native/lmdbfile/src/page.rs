//! One page in the making.

use crate::Layout;
use crate::layout::{Header, NODE_HEADER, even, page, read_u16};

/// A leaf or branch of nodes, or a leaf of values of one size (LEAF2).
#[derive(Debug)]
pub(crate) struct Page {
    layout: Layout,
    bytes: Vec<u8>,
    flags: u16,
    /// End of the pointers; of the values on a LEAF2 page.
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

    /// `fixed`: the size of every value of a LEAF2 page.
    pub fn clear(&mut self, fixed: usize) {
        (self.lower, self.upper) = (self.layout.page_header(), self.layout.page_size);
        (self.count, self.fixed) = (0, fixed);
    }

    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether a node with this many bytes of key and value fits.
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

    /// Takes the last node off a branch: its child and key.
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

    /// The only child of a branch that has one.
    pub fn only_child(&self) -> Option<u64> {
        let half = |at| u64::from(read_u16(&self.bytes, self.upper + at));
        (self.count == 1).then(|| half(0) | half(2) << 16 | half(4) << 32)
    }

    /// How many more values fit on a LEAF2 page.
    #[inline]
    pub fn fixed_room(&self) -> usize {
        (self.layout.page_size - self.lower) / self.fixed
    }

    /// Room for `count` values on a LEAF2 page, which must fit.
    #[inline]
    pub fn push_fixed(&mut self, count: usize) -> &mut [u8] {
        let start = self.lower;
        self.lower += count * self.fixed;
        self.count += count;
        &mut self.bytes[start..self.lower]
    }

    /// The first value.
    pub fn first_value(&self) -> &[u8] {
        if self.fixed > 0 {
            let start = self.layout.page_header();
            return &self.bytes[start..start + self.fixed];
        }
        let at = self.layout.pointer(&self.bytes, self.layout.page_header());
        let size = usize::from(read_u16(&self.bytes, at + 6));
        &self.bytes[at + 8..at + 8 + size]
    }

    /// The page as it is written, but for its number.
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

    /// Size of the sub-page with these values.
    pub fn sub_page_size(&self) -> usize {
        if self.fixed > 0 {
            even(self.lower)
        } else {
            self.lower + self.layout.page_size - self.upper
        }
    }

    /// The values as a sub-page, for the node of their key.
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
        // LMDB wants a number above those of the meta pages and never looks there.
        self.layout.put_number(sub_page, crate::layout::META_PAGES, 0);
        self.layout.put_header(sub_page, header);
    }

    /// The nodes of a sub-page follow its pointers at once.
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

    /// LEAF2 pages have no pointers, but their bounds are kept as if each value had one and took
    /// that much less room.
    fn fixed_header(&self, size: usize, flags: u16) -> Header {
        let lower = self.layout.page_header() + 2 * self.count;
        let upper = size + 2 * self.count - self.count * self.fixed;
        #[allow(clippy::cast_possible_truncation)] // A value is no longer than a page.
        Header { pad: self.fixed as u16, flags, lower, upper }
    }
}
