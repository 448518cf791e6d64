//! A leaf with all that points from it to other pages.

use std::cmp::Reverse;

use super::pages::Pages;
use crate::layout::node;
use crate::reader::{
    Kind, OUT_OF_ORDER, View, table_record, value_record, values_beside, values_kind,
};
use crate::{Error, Flags, MAX_KEY, Order, Result, Table};

/// What stands on a leaf.
#[derive(Debug, Clone, Copy)]
pub(super) enum LeafContents {
    /// Keys of a table with these flags. In the main table records of tables may stand too.
    Keys { flags: Flags, main: bool, keys: Order, values: Order },
    /// Values of one key, alone or of one size.
    Values(Kind, Order),
}

#[derive(Debug)]
pub(super) struct Leaf {
    pub number: u64,
    pub view: View,
    /// Values on it, those on its sub-pages counted.
    pub entries: u64,
    /// Each with the place of its node among the others; tables first, the largest before all.
    pub pointers: Vec<(usize, Pointer)>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Pointer {
    /// A value of this size on overflow pages, the first of which is this.
    Large(u64, usize),
    /// The record of a key's values, and what stands on the leaves of that tree.
    Values(Table, LeafContents),
    /// The record of a table.
    Table(Table),
}

impl Pointer {
    /// Leaves of a table.
    fn table_pages(&self) -> u64 {
        if let Self::Table(record) = self { record.leaf_pages } else { 0 }
    }

    pub fn tree(&self) -> Option<&Table> {
        match self {
            Self::Values(record, _) | Self::Table(record) => Some(record),
            Self::Large(..) => None,
        }
    }
}

impl LeafContents {
    /// On the leaves of a tree of a key's values.
    fn values(self, record: &Table) -> Self {
        Self::Values(values_kind(record), self.order_of_values())
    }

    /// Of what stands on the leaves.
    pub fn order(self) -> Order {
        match self {
            Self::Keys { keys, .. } => keys,
            Self::Values(_, order) => order,
        }
    }

    fn order_of_values(self) -> Order {
        match self {
            Self::Keys { values, .. } => values,
            Self::Values(_, order) => order,
        }
    }

    fn kind(self) -> Kind {
        match self {
            Self::Keys { .. } => Kind::Leaf,
            Self::Values(kind, _) => kind,
        }
    }
}

/// The only branch of a tree, if it has one: it points to all leaves.
pub(super) fn only_branch(record: &Table) -> Option<u64> {
    (record.depth == 2).then_some(record.root)
}

/// Reads leaves and checks them.
pub(super) fn leaves(pages: &Pages, numbers: &[u64], want: LeafContents) -> Result<Vec<Leaf>> {
    pages.want(numbers);
    let views = pages.views(numbers)?.into_iter();
    numbers.iter().zip(views).map(|(&number, view)| Leaf::new(number, view, want)).collect()
}

impl Leaf {
    pub fn new(number: u64, view: View, want: LeafContents) -> Result<Self> {
        if view.kind != want.kind() {
            return Err(Error::corrupt(number, "a page of another kind than its place wants"));
        }
        if view.key(0).len() > MAX_KEY {
            return Err(Error::corrupt(number, "a key longer than LMDB allows"));
        }
        require_ascending(&view, want.order(), number)?;
        let mut leaf = Self { number, view, entries: 0, pointers: Vec::new() };
        match want {
            LeafContents::Values(Kind::Leaf2(_), _) => leaf.entries = leaf.view.count as u64,
            _ => (0..leaf.view.count).try_for_each(|at| leaf.node(at, want))?,
        }
        // The largest table lies all over a file that was not written at once: with it all else comes into memory.
        leaf.pointers.sort_by_key(|(_, pointer)| Reverse(pointer.table_pages()));
        Ok(leaf)
    }

    fn node(&mut self, at: usize, want: LeafContents) -> Result<()> {
        const VALUES: u16 = node::DUPDATA | node::SUBDATA;
        let here = self.view.node(at);
        let (flags, main) = match want {
            LeafContents::Keys { flags, main, .. } => (flags, main),
            LeafContents::Values(..) => (Flags::NONE, false),
        };
        let many = flags.contains(Flags::DUPSORT);
        let pointer = match here.flags {
            0 => None,
            node::BIGDATA if !many && matches!(want, LeafContents::Keys { .. }) => {
                here.overflow_page().map(|first| Pointer::Large(first, here.size))
            }
            node::DUPDATA if many => return self.sub_page(at, flags, want),
            VALUES if many => {
                let record = value_record(here.data, flags, self.number)?;
                Some(Pointer::Values(record, want.values(&record)))
            }
            node::SUBDATA if main => Some(Pointer::Table(table_record(here.data, self.number)?)),
            _ => {
                let what = "a value of a kind that its table cannot have";
                return Err(Error::corrupt(self.number, what));
            }
        };
        self.entries += 1;
        self.pointers.extend(pointer.map(|pointer| (at, pointer)));
        Ok(())
    }

    fn sub_page(&mut self, at: usize, flags: Flags, want: LeafContents) -> Result<()> {
        let values = values_beside(&self.view, at, flags, self.number)?;
        require_ascending(&values, want.order_of_values(), self.number)?;
        self.entries += values.count as u64;
        Ok(())
    }
}

fn require_ascending(view: &View, order: Order, number: u64) -> Result<()> {
    let rising = |at| order.compare(view.key(at - 1), view.key(at)).is_lt();
    if (1..view.count).all(rising) { Ok(()) } else { Err(Error::corrupt(number, OUT_OF_ORDER)) }
}
