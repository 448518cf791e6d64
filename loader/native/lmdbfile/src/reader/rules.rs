//! The rules for the pages of a tree. All readers apply them, so that they report damage in the same words.

use std::cmp::Ordering;

use super::contents::{Ascending, Branch, Contents, Leaf, Orders, Others, Pointer, Within};
use super::view::{Kind, OTHER_KIND, PageCheck, View};
use crate::{Error, Flags, Order, Result, Table};

const OUT_OF_ORDER: &str = "keys or values that are not in ascending order";

/// The rules of one tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TreeRules {
    /// Flags of the tree's table.
    flags: Flags,
    role: Role,
    order: Order,
    /// The order of the values of each key.
    value_order: Order,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// The table of tables.
    Main,
    Table,
    /// A tree of the values of one key, where each value is a key of the tree. `Kind` is the kind of the tree's leaves.
    Values(Kind),
}

/// What the branches above a page determine about the page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'k> {
    /// The page is on the lowest level.
    pub is_leaf: bool,
    pub within: Within<&'k [u8]>,
}

impl TreeRules {
    pub const fn main(flags: Flags) -> Self {
        Self { role: Role::Main, ..Self::of_flags(flags) }
    }

    /// Returns the rules of a table with the orders that its flags imply.
    pub const fn of_flags(flags: Flags) -> Self {
        Self::table(flags, flags.key_order(), flags.value_order())
    }

    pub const fn table(flags: Flags, order: Order, value_order: Order) -> Self {
        Self { flags, role: Role::Table, order, value_order }
    }

    /// Returns the rules of a tree of values. `size` is the size of each value in bytes, or 0 if sizes differ.
    pub const fn values(&self, size: u32) -> Self {
        let kind = match size as usize {
            0 => Kind::Leaf,
            size => Kind::Leaf2(size),
        };
        Self { role: Role::Values(kind), order: self.value_order, ..*self }
    }

    /// Returns the orders to check on a page of the tree.
    pub const fn orders(&self) -> Orders<'_> {
        let (keys, values) = (std::slice::from_ref(&self.order), std::slice::from_ref(&self.value_order));
        Orders { keys, values }
    }

    #[inline]
    pub fn compare(&self, left: &[u8], right: &[u8]) -> Ordering {
        self.order.compare(left, right)
    }

    pub fn branch(&self, number: u64, view: &View, within: Within<&[u8]>) -> Result<Branch> {
        match self.page(number, view, Place { is_leaf: false, within })? {
            Contents::Branch(branch) => Ok(branch),
            _ => Err(Error::corrupt(number, OTHER_KIND)),
        }
    }

    pub fn leaf(&self, number: u64, view: &View, within: Within<&[u8]>) -> Result<Leaf> {
        match self.page(number, view, Place { is_leaf: true, within })? {
            Contents::Leaf(leaf) => Ok(leaf),
            _ => Err(Error::corrupt(number, OTHER_KIND)),
        }
    }

    /// Parses a page and returns its contents. Fails unless the rules allow them at this place.
    pub fn page(&self, number: u64, view: &View, place: Place<'_>) -> Result<Contents> {
        let contents = Contents::new(view, self.orders());
        self.check(number, &contents, self.orders(), place)?;
        Ok(contents)
    }

    /// Refuses contents that are not allowed at this place. `orders` are the orders that were checked when the page was
    /// parsed.
    pub fn check(&self, number: u64, contents: &Contents, orders: Orders<'_>, place: Place<'_>) -> Result<()> {
        let checked = match contents {
            Contents::Branch(branch) if !place.is_leaf => {
                let ascends = branch.ascending.has(self.order, orders.keys);
                self.check_branch(branch.len(), ascends, branch.ends(), place)
            }
            Contents::Leaf(leaf) if place.is_leaf => self.check_leaf(leaf, orders, place),
            _ => Err(OTHER_KIND),
        };
        checked.map_err(|what| Error::corrupt(number, what))
    }

    /// Checks a page without returning its contents. `again` is set if the page has passed these rules before, perhaps
    /// at another place: then only what depends on the place is checked.
    pub fn check_view(&self, number: u64, view: &View, place: Place<'_>, again: bool) -> Result<()> {
        let checked = match view.kind {
            Kind::Branch if !place.is_leaf => {
                let ascends = again || Ascending::of(view, &[self.order]).has(self.order, &[self.order]);
                self.check_branch(view.count, ascends, view.ends(), place)
            }
            Kind::Leaf | Kind::Leaf2(_) if !again => {
                return self.page(number, view, place).map(drop);
            }
            Kind::Leaf | Kind::Leaf2(_) if place.is_leaf => self.check_within(view.ends(), place),
            _ => Err(OTHER_KIND),
        };
        checked.map_err(|what| Error::corrupt(number, what))
    }

    pub fn is(&self, other: &Self) -> bool {
        let same = self.flags == other.flags && self.role == other.role;
        same && self.order.is(other.order) && self.value_order.is(other.value_order)
    }

    fn check_branch(&self, children: usize, ascends: bool, ends: (&[u8], &[u8]), place: Place<'_>) -> PageCheck<()> {
        require(children > 1, "a branch with a single child")?;
        require(ascends, OUT_OF_ORDER)?;
        self.check_within(ends, place)
    }

    fn check_leaf(&self, leaf: &Leaf, found: Orders<'_>, place: Place<'_>) -> PageCheck<()> {
        let kind = if let Role::Values(kind) = self.role { kind } else { Kind::Leaf };
        require(leaf.kind == kind, OTHER_KIND)?;
        require(leaf.ascending.has(self.order, found.keys), OUT_OF_ORDER)?;
        self.check_within(leaf.ends(), place)?;
        leaf.others.as_ref().map_or(Ok(()), |others| self.check_others(others, found))
    }

    /// Checks the bounds of a page. A leaf's first key may equal the separator before the leaf, but the separators on a
    /// branch must be greater than the one before the branch.
    fn check_within(&self, (first, last): (&[u8], &[u8]), place: Place<'_>) -> PageCheck<()> {
        let above = place.within.from.is_none_or(|from| match self.order.compare(from, first) {
            Ordering::Less => true,
            Ordering::Equal => place.is_leaf,
            Ordering::Greater => false,
        });
        let below = place.within.to.is_none_or(|to| self.order.compare(last, to).is_lt());
        require(above && below, OUT_OF_ORDER)
    }

    fn check_others(&self, others: &Others, orders: Orders<'_>) -> PageCheck<()> {
        others.wrong.map_or(Ok(()), Err)?;
        require(!matches!(self.role, Role::Values(_)), "a value with flags")?;
        if others.fixed || others.nodes {
            self.check_many()?;
            let fixed = self.flags.contains(Flags::DUPFIXED);
            let other = if fixed { others.nodes } else { others.fixed };
            require(!other, "a sub-page of the wrong kind for its table")?;
            require(others.ascending.has(self.value_order, orders.values), OUT_OF_ORDER)?;
        }
        others.pointers.iter().try_for_each(|(_, pointer)| self.check_pointer(pointer))
    }

    fn check_pointer(&self, pointer: &Pointer) -> PageCheck<()> {
        match pointer {
            Pointer::Values(record) => self.check_many().and_then(|()| self.check_values(record)),
            Pointer::Table(_) if self.role == Role::Main => Ok(()),
            Pointer::Large(_) if !self.flags.contains(Flags::DUPSORT) => Ok(()),
            _ => Err("a value of a kind that its table cannot have"),
        }
    }

    fn check_many(&self) -> PageCheck<()> {
        let what = "a key with many values where it can have only one";
        require(self.flags.contains(Flags::DUPSORT), what)
    }

    fn check_values(&self, record: &Table) -> PageCheck<()> {
        let fixed = self.flags.contains(Flags::DUPFIXED);
        let fits = record.flags == self.flags.of_values() && (record.pad > 0) == fixed;
        let what = "a record that does not fit the values of its table";
        require(fits && record.entries > 0 && record.depth > 0, what)
    }

    /// Fails if the counts in `record` differ from `seen`, the counts of the tree itself.
    ///
    /// The page counts of a DUPSORT table are not checked: since LMDB 0.9.36 (OpenLDAP 2.6.14) they also include
    /// changes to the number of pages of its trees of values (`mdb_subdb_adjust`), but not the pages from before the
    /// upgrade.
    pub fn check_record(&self, record: &Table, seen: &Table) -> Result<()> {
        let pages_count = matches!(self.role, Role::Values(_)) || !self.flags.contains(Flags::DUPSORT);
        let pages = |table: &Table| (table.branch_pages, table.leaf_pages, table.overflow_pages);
        if seen.entries == record.entries && (!pages_count || pages(seen) == pages(record)) {
            return Ok(());
        }
        Err(other_counts(record))
    }
}

pub(crate) fn other_counts(record: &Table) -> Error {
    Error::corrupt(record.root, "a record whose counts differ from its tree")
}

fn require(right: bool, what: &'static str) -> PageCheck<()> {
    if right { Ok(()) } else { Err(what) }
}
