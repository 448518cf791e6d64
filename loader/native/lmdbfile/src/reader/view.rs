//! Views of pages and sub-pages. All offsets of a page are checked before any is used.

use std::ops::Range;
use std::sync::Arc;

use crate::layout::{Layout, NODE_HEADER, even, node, page, read_u16, read_u64};
use crate::source::LargeNode;
use disk::Buffer;

/// The kind of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Branch,
    Leaf,
    /// A LEAF2 page with values of this size.
    Leaf2(usize),
}

/// A checked page or sub-page in a block of the file.
#[derive(Debug, Clone)]
pub(crate) struct View {
    block: Arc<Buffer>,
    range: Range<usize>,
    pub layout: Layout,
    pub kind: Kind,
    /// Number of nodes, or of values of a LEAF2 page; at least 1.
    pub count: usize,
}

/// A node of a leaf, or a value of a LEAF2 page as a key without data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node<'a> {
    pub flags: u16,
    /// Size of the value in bytes, also if the value is on overflow pages.
    pub size: usize,
    pub key: &'a [u8],
    /// The value, or the `LargePointer` to it.
    pub data: &'a [u8],
}

/// The result of a check of a page. The error says what is wrong; the caller adds the page and the table.
pub(crate) type PageCheck<T> = Result<T, &'static str>;

pub(crate) const OTHER_KIND: &str = "a page of the wrong kind for its position";

impl View {
    /// Returns a view of a page of a tree. `range` must lie within the block.
    pub fn page(block: Arc<Buffer>, range: Range<usize>, layout: Layout) -> PageCheck<Self> {
        let header = layout.header(&block[range.clone()]);
        let kind = kind(header.flags, header.pad)?;
        let (lower, upper) = (header.lower, header.upper);
        let pointers = lower.checked_sub(layout.page_header()).filter(|size| size % 2 == 0);
        let count = pointers.ok_or("the pointers of a page end before they begin")? / 2;
        let view = Self { block, range, layout, kind, count };
        match view.kind {
            _ if count == 0 => Err("a page without content"),
            Kind::Leaf2(size) if count * size > view.range.len() - layout.page_header() => {
                Err("a page with more values than room")
            }
            Kind::Leaf2(_) => Ok(view),
            _ => view.check_nodes(lower, upper).map(|()| view),
        }
    }

    /// Returns a view of the sub-page in node `at` of a leaf.
    pub fn sub_page(&self, at: usize) -> PageCheck<Self> {
        let (_, data) = self.node_ranges(self.pointer(at));
        let start = self.range.start;
        let range = start + data.start..start + data.end;
        if range.len() < self.layout.page_header() {
            return Err("a sub-page smaller than its header");
        }
        if self.layout.header(&self.block[range.clone()]).flags & page::SUBP == 0 {
            return Err("a sub-page without the sub-page flag");
        }
        Self::page(Arc::clone(&self.block), range, self.layout)
    }

    /// Checks that all nodes lie between `upper` and the end of the page, and that their sizes together do not exceed
    /// this space: otherwise, overlapping nodes could make reading a page slow.
    fn check_nodes(&self, lower: usize, upper: usize) -> PageCheck<()> {
        let end = self.range.len();
        if lower > upper || upper > end {
            return Err("a page with invalid bounds");
        }
        let mut room = end - upper;
        for at in 0..self.count {
            let start = self.pointer(at);
            if start < upper || start % 2 == 1 || start + NODE_HEADER > end {
                return Err("a pointer to outside of its page");
            }
            let node_end = self.node_ranges(start).1.end;
            let remaining = room.checked_sub(even(node_end - start));
            room = remaining.filter(|_| node_end <= end).ok_or("a node that ends outside of its page")?;
        }
        Ok(())
    }

    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.block[self.range.clone()]
    }

    #[inline]
    fn pointer(&self, at: usize) -> usize {
        self.layout.pointer(self.bytes(), self.layout.page_header() + 2 * at)
    }

    /// Returns the ranges of the key and of the data of the node at offset `start`.
    #[inline]
    fn node_ranges(&self, start: usize) -> (Range<usize>, Range<usize>) {
        let bytes = self.bytes();
        let key = key_range(bytes, start);
        let size = match self.kind {
            Kind::Branch => 0,
            _ if read_u16(bytes, start + 4) & node::BIGDATA != 0 => self.layout.format.large_pointer_size(),
            _ => size(bytes, start),
        };
        let data = key.end + self.layout.key_pad(key.len());
        (key, data..data + size)
    }

    /// Returns the flags and the key size of node `at`, which must be below `count`. The page must be a leaf with
    /// nodes.
    #[inline]
    pub fn node_head(&self, at: usize) -> (u16, usize) {
        let (bytes, start) = (self.bytes(), self.pointer(at));
        (read_u16(bytes, start + 4), read_u16(bytes, start + 6).into())
    }

    /// Returns node or value `at`, which must be below `count`. The page must not be a branch.
    #[inline]
    pub fn node(&self, at: usize) -> Node<'_> {
        let bytes = self.bytes();
        if let Kind::Leaf2(size) = self.kind {
            let start = self.layout.page_header() + at * size;
            return Node { flags: 0, size: 0, key: &bytes[start..start + size], data: &[] };
        }
        let start = self.pointer(at);
        let (key, data) = self.node_ranges(start);
        let flags = read_u16(bytes, start + 4);
        Node { flags, size: size(bytes, start), key: &bytes[key], data: &bytes[data] }
    }

    /// Returns the offset of the data of node `at`, which must be below `count`. The page must have nodes.
    pub fn data_start(&self, at: usize) -> usize {
        self.node_ranges(self.pointer(at)).1.start
    }

    /// Returns child `at` of a branch, which must be below `count`.
    pub fn child(&self, at: usize) -> u64 {
        Layout::child(self.bytes(), self.pointer(at))
    }

    /// Returns the index of the first key that has a meaning: the key of a branch's first child has none.
    pub fn first(&self) -> usize {
        (self.count - 1).min(usize::from(self.kind == Kind::Branch))
    }

    /// Returns the first key that has a meaning, and the last key.
    pub fn ends(&self) -> (&[u8], &[u8]) {
        (self.key(self.first()), self.key(self.count - 1))
    }

    /// Returns key `at` of a page of any kind.
    #[inline]
    pub fn key(&self, at: usize) -> &[u8] {
        if let Kind::Leaf2(_) = self.kind {
            return self.node(at).key;
        }
        let bytes = self.bytes();
        &bytes[key_range(bytes, self.pointer(at))]
    }
}

impl Node<'_> {
    /// Returns the reference to the value if that is on overflow pages.
    pub fn large(&self) -> Option<LargeNode> {
        (self.flags & node::BIGDATA != 0).then(|| {
            // Format 3 stores the number of pages after the transaction.
            let count = self.data.get(16..).filter(|rest| !rest.is_empty());
            let pages = count.map(|rest| u32::try_from(read_u64(rest, 0)).unwrap_or(u32::MAX));
            LargeNode { first: read_u64(self.data, 0), size: self.size, pages }
        })
    }
}

/// Returns the range of the key of the node at offset `start`.
#[inline]
fn key_range(bytes: &[u8], start: usize) -> Range<usize> {
    let key = start + NODE_HEADER;
    key..key + usize::from(read_u16(bytes, start + 6))
}

/// Returns the size in bytes of the value of a leaf's node at offset `start`.
#[inline]
fn size(bytes: &[u8], start: usize) -> usize {
    usize::from(read_u16(bytes, start)) | usize::from(read_u16(bytes, start + 2)) << 16
}

fn kind(flags: u16, pad: u16) -> PageCheck<Kind> {
    const LEAF2: u16 = page::LEAF | page::LEAF2;
    match flags & page::KINDS {
        page::BRANCH => Ok(Kind::Branch),
        page::LEAF => Ok(Kind::Leaf),
        LEAF2 if pad > 0 => Ok(Kind::Leaf2(usize::from(pad))),
        _ => Err(OTHER_KIND),
    }
}
