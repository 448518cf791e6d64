//! Every page of a snapshot, once, and an account of them.

use std::ops::Range;

use super::leaf::{Ascending, Branch, Leaf, Orders, Others};
use super::path::OUT_OF_ORDER;
use super::runs::Runs;
use super::seen::{Met, Seen};
use super::tree::{Tree, other_counts, value_record, values_kind};
use super::view::Kind;
use super::{NamedTable, Reader, TableReader};
use crate::compact::cancelled;
use crate::layout::{META_PAGES, read_u64};
use crate::{Error, ErrorKind, Flags, Order, Result};

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
pub struct PageUsage {
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
    pub fn walk(&self, visit: &mut dyn FnMut(&PageUse<'_>)) -> Result<PageUsage> {
        let (found, damage) = self.survey(None, &mut |page| {
            visit(page);
            true
        });
        damage.into_iter().next().map_or(Ok(found), Err)
    }

    /// As [`walk`](Self::walk), but goes on with the next table where one is damaged: what was found of
    /// the others, and the first damage of each. Which pages nobody uses is told only if there is none. `visit` gives up
    /// with `false`: then the last damage is that the walk was cancelled.
    ///
    /// `seen`: of this very file; what it has is not read again.
    pub fn survey(
        &self,
        seen: Option<&Seen>,
        visit: &mut dyn FnMut(&PageUse<'_>) -> bool,
    ) -> (PageUsage, Vec<Error>) {
        let own = self.orders();
        let seen = seen.and_then(|seen| Some((seen, seen.orders(&own)?)));
        let (seen, orders) = seen.map_or((None, &own), |(seen, orders)| (Some(seen), orders));
        let (used, found) = (Runs::default(), PageUsage::default());
        let mut walk = Walk { seen, orders, visit, used, found };
        walk.used.add(0, META_PAGES);
        let meta = PageUse { number: 0, count: META_PAGES, kind: PageKind::Meta, table: MAIN };
        if !(walk.visit)(&meta) {
            return (walk.found, vec![cancelled()]);
        }
        let (free, main) = (
            NamedTable::new(b"free", self.meta.free),
            NamedTable::new(MAIN.as_bytes(), self.meta.main),
        );
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
    seen: Option<&'v Seen>,
    orders: &'v Orders,
    visit: &'v mut dyn FnMut(&PageUse<'_>) -> bool,
    used: Runs,
    found: PageUsage,
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
        record.check_depth()?;
        if record.depth > 0 {
            self.page(tree, record.root, 1)?;
        }
        if tree.seen == tree.expected_record() {
            return Ok(());
        }
        Err(other_counts(&record))
    }

    fn page(&mut self, tree: &mut Tree<'_>, number: u64, level: u16) -> Result<()> {
        let met = self.met(tree, number)?;
        let is_leaf = level == tree.record.depth;
        match met {
            Met::Leaf(leaf) if is_leaf && leaf.kind == tree.kind => {
                self.add(tree.table.name, number, 1, PageKind::Leaf)?;
                tree.seen.leaf_pages += 1;
                self.leaf(tree, number, &leaf)
            }
            Met::Branch(branch) if !is_leaf => {
                self.add(tree.table.name, number, 1, PageKind::Branch)?;
                tree.seen.branch_pages += 1;
                self.branch(tree, number, &branch, level)
            }
            _ => Err(Error::corrupt(number, "a page of another kind than its place wants")),
        }
    }

    /// From what was seen of the file before, or from the file.
    fn met(&self, tree: &Tree<'_>, number: u64) -> Result<Met> {
        match self.seen.and_then(|seen| seen.take(number)) {
            Some(Met::Large(_)) | None => {}
            Some(met) => return Ok(met),
        }
        let wanted = self.orders.these([tree.order, tree.table.value_order]);
        Ok(Met::new(&tree.table.store.next_view(number)?, wanted))
    }

    fn branch(
        &mut self,
        tree: &mut Tree<'_>,
        number: u64,
        branch: &Branch,
        level: u16,
    ) -> Result<()> {
        let children = branch.children();
        if children.len() < 2 {
            return Err(Error::corrupt(number, "a branch with a single child"));
        }
        for (at, (child, key)) in children.enumerate() {
            if at > 0 {
                tree.check_floor(number, key)?;
                tree.set_floor(key, true);
            }
            self.page(tree, child, level + 1)?;
        }
        Ok(())
    }

    fn leaf(&mut self, tree: &mut Tree<'_>, number: u64, leaf: &Leaf) -> Result<()> {
        tree.check_floor(number, leaf.first())?;
        self.require_ascending(leaf.ascending, tree.order, number)?;
        tree.set_floor(leaf.last(), false);
        tree.seen.entries += leaf.plain;
        let Some(others) = &leaf.others else { return Ok(()) };
        if tree.values_of_a_key {
            return Err(Error::corrupt(number, "a value with flags"));
        }
        self.others(tree, number, others)
    }

    fn require_ascending(&self, found: Ascending, order: Order, number: u64) -> Result<()> {
        let ascends = self.orders.has(found, order);
        if ascends { Ok(()) } else { Err(Error::corrupt(number, OUT_OF_ORDER)) }
    }

    fn others(&mut self, tree: &mut Tree<'_>, number: u64, others: &Others) -> Result<()> {
        let table = tree.table;
        if others.tables > 0 && table.name != MAIN {
            return Err(Error::corrupt(number, "a node with flags that make no sense"));
        }
        if let Some(what) = others.wrong {
            return Err(Error::corrupt(number, what));
        }
        tree.seen.entries += others.tables + others.large.len() as u64;
        for &(first, size) in &others.large {
            let pages = self.large(table, first, size)?;
            self.add(table.name, first, pages, PageKind::Overflow)?;
            tree.seen.overflow_pages += pages;
        }
        tree.seen.entries += self.sub_pages(table, number, others)?;
        for record in &others.trees {
            tree.seen.entries += self.values(table, number, record)?;
        }
        Ok(())
    }

    fn large(&self, table: TableReader<'_>, first: u64, size: usize) -> Result<u64> {
        match self.seen.and_then(|seen| seen.take(first)) {
            Some(Met::Large(header)) => table.store.bounds().overflow_pages(&header, first, size),
            _ => table.store.overflow_pages(first, size),
        }
    }

    /// How many values there are.
    fn sub_pages(&self, table: TableReader<'_>, number: u64, others: &Others) -> Result<u64> {
        if !others.fixed && !others.nodes {
            return Ok(0);
        }
        require_many(table, number)?;
        let fixed = table.record.flags.contains(Flags::DUPFIXED);
        if (fixed && others.nodes) || (!fixed && others.fixed) {
            let what = "a sub-page of another kind than its table wants";
            return Err(Error::corrupt(number, what));
        }
        self.require_ascending(others.ascending, table.value_order, number)?;
        Ok(others.values)
    }

    /// The values of a key that has so many that they are in a tree of their own: how many.
    fn values(&mut self, table: TableReader<'_>, number: u64, record: &[u8]) -> Result<u64> {
        require_many(table, number)?;
        let record = value_record(record, table.record.flags, number)?;
        let kind = values_kind(&record);
        let mut tree = Tree::new(table, record, table.value_order, kind);
        tree.values_of_a_key = true;
        self.tree(&mut tree)?;
        Ok(record.entries)
    }
}

fn require_many(table: TableReader<'_>, number: u64) -> Result<()> {
    if table.record.flags.contains(Flags::DUPSORT) {
        return Ok(());
    }
    Err(Error::corrupt(number, "a key with many values where it can have only one"))
}
