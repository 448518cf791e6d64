//! What a walk through a tree has to know of a page. It is made of the page's bytes alone, so that pages can be looked at
//! in the order in which they lie in the file, before anybody knows which tables they belong to.

use super::view::{Kind, Node, View};
use crate::layout::node;
use crate::{Order, Table};

/// Orders in which keys and values may stand: three of LMDB's own, and those that `Reader::set_orders` is told.
#[derive(Debug, Clone, Default)]
pub(crate) struct Orders(Vec<Order>);

/// Which of them to look for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'o> {
    orders: &'o [Order],
    mask: u32,
}

/// In which of the [`Orders`] something ascends: a bit for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ascending(u32);

/// A branch: its children, and the key of each.
#[derive(Debug)]
pub(crate) struct Branch {
    /// Each with where its key begins among the keys.
    children: Box<[(u64, u32)]>,
    keys: Box<[u8]>,
}

/// A leaf, without what is on it.
#[derive(Debug)]
pub(crate) struct Leaf {
    pub kind: Kind,
    /// Nodes or values.
    pub count: u64,
    pub ascending: Ascending,
    /// The first key and the last, which begins at `middle`.
    ends: Box<[u8]>,
    middle: usize,
    /// Nodes with one value, which is on the page.
    pub plain: u64,
    /// What the other nodes have.
    pub others: Option<Box<Others>>,
}

/// Nodes with flags.
#[derive(Debug)]
pub(crate) struct Others {
    /// Values on overflow pages: the first of these, and their size.
    pub large: Vec<(u64, usize)>,
    /// Records of tables.
    pub tables: u64,
    /// Records of trees with the values of a key.
    pub trees: Vec<[u8; Table::SIZE]>,
    /// Values on sub-pages, and in which orders they ascend on all of them.
    pub values: u64,
    pub ascending: Ascending,
    /// Some sub-pages hold values of one size.
    pub fixed: bool,
    /// Some do not.
    pub nodes: bool,
    /// What no table may have.
    pub wrong: Option<&'static str>,
}

impl Orders {
    pub fn add(&mut self, order: Order) {
        if self.place(order).is_none() {
            debug_assert!(self.0.len() < 32, "a bit for each");
            self.0.push(order);
        }
    }

    pub fn cover(&self, others: &Self) -> bool {
        others.0.iter().all(|one| self.place(*one).is_some())
    }

    fn place(&self, order: Order) -> Option<usize> {
        self.0.iter().position(|known| known.is(order))
    }

    /// `order` is one of these.
    pub fn has(&self, ascending: Ascending, order: Order) -> bool {
        self.place(order).is_some_and(|at| ascending.0 & 1 << at != 0)
    }

    /// To look for all of them.
    pub fn all(&self) -> Wanted<'_> {
        Wanted { orders: &self.0, mask: u32::MAX }
    }

    /// To look for some of them.
    pub fn these(&self, orders: [Order; 2]) -> Wanted<'_> {
        let places = orders.into_iter().filter_map(|order| self.place(order));
        Wanted { orders: &self.0, mask: places.fold(0, |mask, at| mask | 1 << at) }
    }
}

impl Wanted<'_> {
    /// Most orders end at the second key or the third, where another one is right.
    fn of(self, view: &View) -> Ascending {
        let mut found = 0;
        for (at, order) in self.orders.iter().enumerate() {
            let rising = |at| order.compare(view.key(at - 1), view.key(at)).is_lt();
            if self.mask & 1 << at != 0 && (1..view.count).all(rising) {
                found |= 1 << at;
            }
        }
        Ascending(found)
    }
}

impl Branch {
    /// `view`: of a branch.
    pub fn new(view: &View) -> Self {
        let (mut children, mut keys) = (Vec::with_capacity(view.count), Vec::new());
        for at in 0..view.count {
            #[allow(clippy::cast_possible_truncation, reason = "a page has at most 32768 bytes")]
            children.push((view.child(at), keys.len() as u32));
            keys.extend_from_slice(view.key(at));
        }
        Self { children: children.into(), keys: keys.into() }
    }

    /// Each with its key; the first key means nothing.
    pub fn children(&self) -> impl ExactSizeIterator<Item = (u64, &[u8])> {
        self.children.iter().enumerate().map(|(at, &(child, start))| {
            let end = self.children.get(at + 1).map_or(self.keys.len(), |next| next.1 as usize);
            (child, &self.keys[start as usize..end])
        })
    }
}

impl Leaf {
    /// `view`: of a page that is no branch.
    pub fn new(view: &View, orders: Wanted<'_>) -> Self {
        let (first, last) = (view.key(0), view.key(view.count - 1));
        let mut leaf = Self {
            kind: view.kind,
            count: view.count as u64,
            ascending: orders.of(view),
            ends: [first, last].concat().into(),
            middle: first.len(),
            plain: 0,
            others: None,
        };
        if let Kind::Leaf2(_) = view.kind {
            leaf.plain = leaf.count;
            return leaf;
        }
        for at in 0..view.count {
            let here = view.node(at);
            if here.flags == 0 {
                leaf.plain += 1;
            } else {
                let others = leaf.others.get_or_insert_with(|| Box::new(Others::new()));
                others.add(view, at, &here, orders);
            }
        }
        if let Some(others) = &mut leaf.others {
            others.large.shrink_to_fit();
            others.trees.shrink_to_fit();
        }
        leaf
    }

    pub fn first(&self) -> &[u8] {
        &self.ends[..self.middle]
    }

    pub fn last(&self) -> &[u8] {
        &self.ends[self.middle..]
    }
}

impl Others {
    fn new() -> Self {
        Self {
            large: Vec::new(),
            tables: 0,
            trees: Vec::new(),
            values: 0,
            ascending: Ascending(u32::MAX),
            fixed: false,
            nodes: false,
            wrong: None,
        }
    }

    fn add(&mut self, view: &View, at: usize, here: &Node<'_>, orders: Wanted<'_>) {
        const MANY: u16 = node::DUPDATA | node::SUBDATA;
        if here.flags & !(node::BIGDATA | MANY) != 0 {
            self.wrong = Some("a node with flags that make no sense");
            return;
        }
        match (here.flags & MANY, here.overflow_page()) {
            (node::SUBDATA, None) => self.tables += 1,
            (0 | node::SUBDATA, Some(first)) => self.large.push((first, here.size)),
            (MANY, None) => match here.data.try_into() {
                Ok(record) => self.trees.push(record),
                Err(_) => self.wrong = Some("a table's record of another size"),
            },
            (_, None) => self.wrong = self.sub_page(view, at, orders).err().or(self.wrong),
            (_, Some(_)) => self.wrong = Some("many values of a key on overflow pages"),
        }
    }

    fn sub_page(&mut self, view: &View, at: usize, orders: Wanted<'_>) -> Result<(), &'static str> {
        let values = view.sub_page(at)?;
        match values.kind {
            Kind::Branch => return Err("a sub-page of another kind than its table wants"),
            Kind::Leaf2(_) => self.fixed = true,
            Kind::Leaf => {
                self.nodes = true;
                if (0..values.count).any(|at| values.node(at).flags != 0) {
                    return Err("a value with flags");
                }
            }
        }
        self.values += values.count as u64;
        self.ascending.0 &= orders.of(&values).0;
        Ok(())
    }
}
