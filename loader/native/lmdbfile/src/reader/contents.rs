//! The contents of a page, parsed without knowing its tree, so that pages can be parsed in the order of the file. The
//! module `rules` decides later whether a tree may have the page.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use disk::Buffer;

use super::view::{Kind, PageCheck, View};
use crate::layout::{MAX_PAGE_HEADER, META_PAGES, node};
use crate::source::LargeNode;
use crate::{Layout, Order, Reader, Table};

/// The orders to check: of keys, and of values on sub-pages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Orders<'o> {
    pub keys: &'o [Order],
    pub values: &'o [Order],
}

/// The orders in which keys or values ascend. Bit N stands for order N in the list of orders that were checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ascending(u32);

/// The bounds of the keys of a page: the separators before and after the page in the branches above.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Within<K> {
    /// The lowest allowed key.
    pub from: Option<K>,
    /// All keys must be below this key.
    pub to: Option<K>,
}

pub(crate) enum Contents {
    Branch(Branch),
    Leaf(Leaf),
    /// The header of the first overflow page of a value.
    Overflow([u8; MAX_PAGE_HEADER]),
}

/// The children of a branch and their keys. The first key has no meaning.
pub(crate) struct Branch {
    pub ascending: Ascending,
    /// Each child, and the offset of its key in `keys`.
    children: Box<[(u64, u32)]>,
    keys: Box<[u8]>,
}

pub(crate) struct Leaf {
    pub kind: Kind,
    /// Number of values, including those on sub-pages; a tree of values counts as one.
    pub entries: u64,
    pub ascending: Ascending,
    /// The first key and the last key.
    ends: Box<[u8]>,
    /// Offset of the last key in `ends`.
    middle: usize,
    pub others: Option<Box<Others>>,
}

/// The contents of a leaf, except for keys whose only value is in their node.
#[derive(Debug, Default)]
pub(crate) struct Others {
    /// Each pointer with the index of its node.
    pub pointers: Vec<(u16, Pointer)>,
    /// The orders in which the values of every sub-page ascend.
    pub ascending: Ascending,
    /// Some sub-pages hold values of one size (LEAF2).
    pub fixed: bool,
    /// Some sub-pages hold nodes.
    pub nodes: bool,
    /// A defect that makes the page invalid in any tree.
    pub wrong: Option<&'static str>,
}

#[derive(Debug, Clone)]
pub(crate) enum Pointer {
    /// A value on overflow pages.
    Large(LargeNode),
    /// The tree of a key's values.
    Values(Box<Table>),
    /// A table.
    Table(Box<Table>),
}

impl Default for Ascending {
    /// Returns all orders.
    fn default() -> Self {
        Self(u32::MAX)
    }
}

impl Ascending {
    /// Returns whether keys ascend in `order`, which must be in `orders`.
    pub fn has(self, order: Order, orders: &[Order]) -> bool {
        let at = orders.iter().position(|checked| checked.is(order));
        at.is_some_and(|at| self.0 & 1 << at != 0)
    }

    /// Returns the orders in which the keys ascend. Most wrong orders fail at the second or third key.
    pub fn of(view: &View, orders: &[Order]) -> Self {
        let first = view.first();
        let ascends = |order: &Order| {
            let mut before = view.key(first);
            (first + 1..view.count).all(|at| {
                let here = view.key(at);
                order.compare(std::mem::replace(&mut before, here), here).is_lt()
            })
        };
        let ascending = orders.iter().enumerate().filter(|(_, order)| ascends(order));
        Self(ascending.fold(0, |mask, (at, _)| mask | 1 << at))
    }
}

impl<K: AsRef<[u8]>> Within<K> {
    pub fn borrowed(&self) -> Within<&[u8]> {
        Within { from: self.from.as_ref().map(K::as_ref), to: self.to.as_ref().map(K::as_ref) }
    }

    pub fn owned(&self) -> Within<Vec<u8>> {
        let Within { from, to } = self.borrowed();
        Within { from: from.map(<[u8]>::to_vec), to: to.map(<[u8]>::to_vec) }
    }
}

impl Contents {
    pub fn new(view: &View, orders: Orders<'_>) -> Self {
        match view.kind {
            Kind::Branch => Self::Branch(Branch::new(view, orders)),
            Kind::Leaf | Kind::Leaf2(_) => Self::Leaf(Leaf::new(view, orders)),
        }
    }
}

impl Branch {
    fn new(view: &View, orders: Orders<'_>) -> Self {
        let (mut children, mut keys) = (Vec::with_capacity(view.count), Vec::new());
        for at in 0..view.count {
            #[allow(clippy::cast_possible_truncation, reason = "a page has at most 65536 bytes")]
            children.push((view.child(at), keys.len() as u32));
            keys.extend_from_slice(view.key(at));
        }
        let ascending = Ascending::of(view, orders.keys);
        Self { ascending, children: children.into(), keys: keys.into() }
    }

    /// Returns the separators before the second child and before the last child.
    pub fn ends(&self) -> (&[u8], &[u8]) {
        let last = self.len() - 1;
        (self.key(last.min(1)), self.key(last))
    }

    pub fn len(&self) -> usize {
        self.children.len()
    }

    pub fn children(&self) -> impl Iterator<Item = u64> {
        self.children.iter().map(|&(child, _)| child)
    }

    pub fn key(&self, at: usize) -> &[u8] {
        let end = self.children.get(at + 1).map_or(self.keys.len(), |next| next.1 as usize);
        &self.keys[self.children[at].1 as usize..end]
    }

    /// Returns the bounds of the keys of child `at`. `outer` are the bounds of this page.
    pub fn within<'k>(&'k self, at: usize, outer: Within<&'k [u8]>) -> Within<&'k [u8]> {
        let from = if at > 0 { Some(self.key(at)) } else { outer.from };
        let to = if at + 1 < self.len() { Some(self.key(at + 1)) } else { outer.to };
        Within { from, to }
    }
}

impl Leaf {
    fn new(view: &View, orders: Orders<'_>) -> Self {
        let (first, last) = view.ends();
        let mut leaf = Self {
            kind: view.kind,
            entries: view.count as u64,
            ascending: Ascending::of(view, orders.keys),
            ends: [first, last].concat().into(),
            middle: first.len(),
            others: None,
        };
        if view.kind == Kind::Leaf {
            leaf.nodes(view, orders.values);
        }
        leaf
    }

    fn nodes(&mut self, view: &View, orders: &[Order]) {
        let max_key = view.layout.max_key();
        for at in 0..view.count {
            let (flags, key) = view.node_head(at);
            if flags == 0 && key <= max_key {
                continue;
            }
            let others = self.others.get_or_insert_default();
            match others.add(view, at, orders) {
                Ok(entries) => self.entries += entries - 1,
                Err(what) => others.wrong = Some(what),
            }
        }
        if let Some(others) = &mut self.others {
            others.pointers.shrink_to_fit();
        }
    }

    pub fn ends(&self) -> (&[u8], &[u8]) {
        self.ends.split_at(self.middle)
    }

    pub fn pointers(&self) -> &[(u16, Pointer)] {
        self.others.as_ref().map_or(&[], |others| &others.pointers)
    }
}

impl Others {
    /// Adds node `at`, and returns its number of values; a tree of values counts as one.
    fn add(&mut self, view: &View, at: usize, orders: &[Order]) -> PageCheck<u64> {
        const VALUES: u16 = node::DUPDATA | node::SUBDATA;
        let here = view.node(at);
        if here.key.len() > view.layout.max_key() {
            return Err("a key longer than LMDB allows");
        }
        let pointer = match (here.flags, here.large()) {
            (node::BIGDATA, Some(large)) => Pointer::Large(large),
            (node::DUPDATA, _) => return self.sub_page(view, at, orders),
            (VALUES, _) => Pointer::Values(Box::new(Table::read(here.data)?)),
            (node::SUBDATA, _) => Pointer::Table(Box::new(Table::read(here.data)?)),
            _ => return Err("a node with invalid flags"),
        };
        #[allow(clippy::cast_possible_truncation, reason = "a page has at most 65536 bytes")]
        self.pointers.push((at as u16, pointer));
        Ok(1)
    }

    fn sub_page(&mut self, view: &View, at: usize, orders: &[Order]) -> PageCheck<u64> {
        let values = view.sub_page(at)?;
        match values.kind {
            Kind::Branch => return Err("a sub-page of the wrong kind for its table"),
            Kind::Leaf2(_) => self.fixed = true,
            Kind::Leaf => {
                self.nodes = true;
                if (0..values.count).any(|at| values.node_head(at).0 != 0) {
                    return Err("a value with flags");
                }
            }
        }
        self.ascending.0 &= Ascending::of(&values, orders).0;
        Ok(values.count as u64)
    }
}

/// Page numbers in order, with the contents of the pages; `None` once [`Seen::take`] has returned the contents.
type Piece = Vec<(u64, Option<Contents>)>;

/// The contents of pages, recorded while a file is copied. They take some 130 bytes of memory per page of 4096 bytes.
pub struct Seen {
    layout: Layout,
    /// The transaction of the snapshot.
    txn: u64,
    orders: Vec<Order>,
    /// The pages of each piece of the file, by the piece's first page.
    pieces: Mutex<BTreeMap<u64, Piece>>,
}

impl Seen {
    /// Prepares for a page-for-page copy of the snapshot that `of` reads.
    pub fn new(of: &Reader) -> Self {
        Self { layout: of.layout(), txn: of.txn(), orders: of.orders(), pieces: Mutex::default() }
    }

    /// Records the pages in a piece of the file, which begins at offset `start`, and returns the piece. Skips pages
    /// that are invalid in any tree, because a free page may have any content.
    pub fn look(&self, start: u64, bytes: Buffer) -> Buffer {
        let size = self.layout.page_size as u64;
        let block = Arc::new(bytes);
        let skip = start.next_multiple_of(size) - start;
        let pages = (start + skip) / size..(start + block.len() as u64) / size;
        let page = |number| {
            #[allow(clippy::cast_possible_truncation, reason = "it lies within the block")]
            let at = (number * size - start) as usize;
            Some((number, Some(self.page(number, &block, at)?)))
        };
        let first = pages.start;
        let mut pages: Vec<_> = pages.filter_map(page).collect();
        pages.shrink_to_fit();
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner).insert(first, pages);
        Arc::try_unwrap(block).unwrap_or_else(|block| Buffer::from(&block[..]))
    }

    fn page(&self, number: u64, block: &Arc<Buffer>, start: usize) -> Option<Contents> {
        let range = start..start + self.layout.page_size;
        let bytes = &block[range.clone()];
        if number < META_PAGES {
            return None;
        }
        self.layout.check_number(bytes, number, self.txn).ok()?;
        if self.layout.is_overflow(bytes) {
            return bytes.first_chunk().copied().map(Contents::Overflow);
        }
        let view = View::page(Arc::clone(block), range, self.layout).ok()?;
        Some(Contents::new(&view, self.orders()))
    }

    /// Returns the contents of page `number`, at the first call for this page only.
    pub(super) fn take(&self, number: u64) -> Option<Contents> {
        let mut pieces = self.pieces.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, piece) = pieces.range_mut(..=number).next_back()?;
        let at = piece.binary_search_by_key(&number, |(here, _)| *here).ok()?;
        piece[at].1.take()
    }

    /// Returns the orders that were checked.
    pub(super) fn orders(&self) -> Orders<'_> {
        Orders { keys: &self.orders, values: &self.orders }
    }

    /// Returns whether all orders in `wanted` were checked.
    pub(super) fn covers(&self, wanted: &[Order]) -> bool {
        wanted.iter().all(|order| self.orders.iter().any(|checked| checked.is(*order)))
    }
}
