//! Every page of a snapshot, once, and an account of them.

use std::ops::Range;

use super::path::{MAX_DEPTH, OUT_OF_ORDER};
use super::runs::Runs;
use super::tree::{Tree, other_counts, value_record, values_beside, values_kind};
use super::view::{Kind, View};
use super::{Named, Reader, TableReader};
use crate::compact::cancelled;
use crate::layout::{META_PAGES, node, read_u64};
use crate::table::NO_PAGE;
use crate::{Error, ErrorKind, Flags, Result};

/// The table of tables, in messages.
const MAIN: &str = "main";

/// What a page is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageKind {
    Meta,
    Branch,
    Leaf,
    Overflow,
    Free,
}

/// One or more pages in a row with the same use.
#[derive(Debug, Clone, Copy)]
pub struct PageUse<'a> {
    pub number: u64,
    pub count: u64,
    pub kind: PageKind,
    pub table: &'a str,
}

/// Where all the pages of a file are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accounting {
    pub branch: u64,
    pub leaf: u64,
    pub overflow: u64,
    /// In the table of free pages.
    pub free: u64,
    /// Neither used nor free, which LMDB never leaves.
    pub unreachable: Vec<Range<u64>>,
}

impl Reader {
    /// Visits every page that the snapshot uses, in the order of the tables' names and keys.
    ///
    /// Checks the structure of all tables on the way: order of keys, separators and values, depths,
    /// and that each record tells the true number of pages and values. A page used twice is an error.
    /// The content of overflow pages is not read.
    pub fn walk(&self, visit: &mut dyn FnMut(&PageUse<'_>)) -> Result<Accounting> {
        let (found, damage) = self.survey(&mut |page| {
            visit(page);
            true
        });
        damage.into_iter().next().map_or(Ok(found), Err)
    }

    /// As [`walk`](Self::walk), but goes on with the next table where one is damaged: what was found of
    /// the others, and the first damage of each. Which pages nobody uses is told only if there is none. `visit` gives up
    /// with `false`: then the last damage is that the walk was cancelled.
    pub fn survey(&self, visit: &mut dyn FnMut(&PageUse<'_>) -> bool) -> (Accounting, Vec<Error>) {
        let mut walk = Walk { visit, used: Runs::default(), found: Accounting::default() };
        walk.used.add(0, META_PAGES);
        let meta = PageUse { number: 0, count: META_PAGES, kind: PageKind::Meta, table: MAIN };
        if !(walk.visit)(&meta) {
            return (walk.found, vec![cancelled()]);
        }
        let (free, main) =
            (Named::new(b"free", self.meta.free), Named::new(MAIN.as_bytes(), self.meta.main));
        let mut damage = Vec::new();
        for table in [&free, &main].into_iter().chain(self.tables.values()) {
            let table = table.reader(&self.store);
            let walked = walk.table(table).map_err(|error| error.of_table(table.name));
            let Err(error) = walked else { continue };
            let given_up = error.kind == ErrorKind::Cancelled;
            damage.push(error);
            if given_up {
                return (walk.found, damage);
            }
        }
        damage.extend(self.free_pages(free.reader(&self.store), &mut walk).err());
        if damage.is_empty() {
            walk.found.unreachable = walk.used.gaps(self.pages());
        }
        (walk.found, damage)
    }

    /// Each value is a count and as many page numbers (`mdb_freelist_save`).
    fn free_pages(&self, table: TableReader<'_>, walk: &mut Walk<'_>) -> Result<()> {
        let mut cursor = table.cursor()?;
        while let Some((_, list)) = cursor.next()? {
            let mut numbers = list.chunks_exact(8).map(|number| read_u64(number, 0));
            let count = numbers.next().and_then(|count| usize::try_from(count).ok());
            let Some(count) = count.filter(|count| *count <= numbers.len()) else {
                let message = "a list of free pages shorter than it says";
                return Err(Error::corrupt(table.record.root, message).of_table(table.name));
            };
            for number in numbers.take(count) {
                if number > self.meta.last_page {
                    let error = Error::corrupt(number, "a free page that is outside of the file");
                    return Err(error.of_table(table.name));
                }
                walk.add(table.name, number, 1, PageKind::Free)?;
            }
        }
        Ok(())
    }
}

struct Walk<'v> {
    visit: &'v mut dyn FnMut(&PageUse<'_>) -> bool,
    used: Runs,
    found: Accounting,
}

impl Walk<'_> {
    fn add(&mut self, table: &str, number: u64, count: u64, kind: PageKind) -> Result<()> {
        if !self.used.add(number, count) {
            return Err(Error::corrupt(number, "a page is used twice").of_table(table));
        }
        let counter = match kind {
            PageKind::Branch => &mut self.found.branch,
            PageKind::Leaf => &mut self.found.leaf,
            PageKind::Free => &mut self.found.free,
            PageKind::Overflow | PageKind::Meta => &mut self.found.overflow,
        };
        *counter += count;
        if (self.visit)(&PageUse { number, count, kind, table }) {
            Ok(())
        } else {
            Err(cancelled())
        }
    }

    fn table(&mut self, table: TableReader<'_>) -> Result<()> {
        self.tree(&mut Tree::new(table, table.record, table.key_order, Kind::Leaf))
    }

    fn tree(&mut self, tree: &mut Tree<'_>) -> Result<()> {
        let record = tree.record;
        if record.depth > MAX_DEPTH || (record.depth == 0) != (record.root == NO_PAGE) {
            return Err(Error::corrupt(record.root, "a tree of an impossible depth"));
        }
        if record.depth > 0 {
            self.page(tree, record.root, 1)?;
        }
        if tree.seen == tree.told() {
            return Ok(());
        }
        Err(other_counts(&record))
    }

    fn page(&mut self, tree: &mut Tree<'_>, number: u64, level: u16) -> Result<()> {
        let view = tree.table.store.next_view(number)?;
        let is_leaf = level == tree.record.depth;
        if is_leaf != (view.kind != Kind::Branch) || (is_leaf && view.kind != tree.kind) {
            return Err(Error::corrupt(number, "a page of another kind than its place wants"));
        }
        if is_leaf {
            self.add(tree.table.name, number, 1, PageKind::Leaf)?;
            tree.seen.leaf_pages += 1;
            return self.leaf(tree, number, &view);
        }
        self.add(tree.table.name, number, 1, PageKind::Branch)?;
        tree.seen.branch_pages += 1;
        self.branch(tree, number, &view, level)
    }

    fn branch(&mut self, tree: &mut Tree<'_>, number: u64, view: &View, level: u16) -> Result<()> {
        if view.count < 2 {
            return Err(Error::corrupt(number, "a branch with a single child"));
        }
        for at in 0..view.count {
            if at > 0 {
                tree.check_floor(number, view.key(at))?;
                tree.set_floor(view.key(at), true);
            }
            self.page(tree, view.child(at), level + 1)?;
        }
        Ok(())
    }

    fn leaf(&mut self, tree: &mut Tree<'_>, number: u64, view: &View) -> Result<()> {
        tree.check_floor(number, view.key(0))?;
        for at in 1..view.count {
            if tree.order.compare(view.key(at - 1), view.key(at)).is_ge() {
                return Err(Error::corrupt(number, OUT_OF_ORDER));
            }
        }
        tree.set_floor(view.key(view.count - 1), false);
        if tree.values_of_a_key {
            if (0..view.count).any(|at| view.node(at).flags != 0) {
                return Err(Error::corrupt(number, "a value with flags"));
            }
            tree.seen.entries += view.count as u64;
            return Ok(());
        }
        (0..view.count).try_for_each(|at| self.node(tree, number, view, at))
    }

    fn node(&mut self, tree: &mut Tree<'_>, number: u64, view: &View, at: usize) -> Result<()> {
        let here = view.node(at);
        let is_known = match here.flags {
            node::SUBDATA => tree.table.name == MAIN,
            flags => flags & !(node::BIGDATA | node::SUBDATA | node::DUPDATA) == 0,
        };
        if !is_known {
            return Err(Error::corrupt(number, "a node with flags that make no sense"));
        }
        if here.flags & node::DUPDATA != 0 {
            tree.seen.entries += self.values(tree.table, number, view, at)?;
            return Ok(());
        }
        tree.seen.entries += 1;
        if let Some(first) = here.overflow_page() {
            let pages = tree.table.store.overflow_pages(first, here.size)?;
            self.add(tree.table.name, first, pages, PageKind::Overflow)?;
            tree.seen.overflow_pages += pages;
        }
        Ok(())
    }

    /// The values of a key that has many: how many.
    fn values(
        &mut self,
        table: TableReader<'_>,
        number: u64,
        view: &View,
        at: usize,
    ) -> Result<u64> {
        let here = view.node(at);
        if !table.record.flags.contains(Flags::DUPSORT) || here.overflow_page().is_some() {
            let what = "a key with many values where it can have only one";
            return Err(Error::corrupt(number, what));
        }
        if here.flags & node::SUBDATA == 0 {
            return self.sub_page(table, number, view, at);
        }
        let record = value_record(&here, table.record.flags, number)?;
        let kind = values_kind(&record);
        let mut tree = Tree::new(table, record, table.value_order, kind);
        tree.values_of_a_key = true;
        self.tree(&mut tree)?;
        Ok(record.entries)
    }

    fn sub_page(
        &mut self,
        table: TableReader<'_>,
        number: u64,
        view: &View,
        at: usize,
    ) -> Result<u64> {
        let values = values_beside(view, at, table.record.flags, number)?;
        let mut tree = Tree::new(table, table.record, table.value_order, values.kind);
        tree.values_of_a_key = true;
        self.leaf(&mut tree, number, &values)?;
        Ok(values.count as u64)
    }
}
