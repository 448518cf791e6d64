//! Visits every page of a snapshot once, and accounts for all pages.

use std::collections::BTreeMap;
use std::ops::Range;

use super::contents::{Contents, Pointer, Seen, Within};
use super::rules::{Place, TreeRules};
use super::{NamedTable, Reader, TableReader};
use crate::compact::cancelled;
use crate::error::used_twice;
use crate::layout::{META_PAGES, read_u64};
use crate::source::{Large, LargeNode};
use crate::{Error, ErrorKind, Result, Table};

/// The name of the main table in messages.
const MAIN: &str = "main";

/// The use of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageKind {
    Meta,
    Branch,
    Leaf,
    Overflow,
    Free,
}

/// One or more consecutive pages with the same use.
#[derive(Debug, Clone, Copy)]
pub struct PageUse<'a> {
    pub number: u64,
    pub count: u64,
    pub kind: PageKind,
    pub table: &'a str,
}

/// Number of a file's pages by use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageUsage {
    pub branch: u64,
    pub leaf: u64,
    pub overflow: u64,
    /// Number of pages listed in the table of free pages.
    pub free: u64,
    /// Pages that are neither used nor free. LMDB never leaves such pages.
    pub unreachable: Vec<Range<u64>>,
}

impl Reader {
    /// Visits every page that the snapshot uses, by table name and key.
    ///
    /// Checks the structure of all tables: the order of keys, separators and values, the depths, and the numbers of
    /// pages and values in each record. Refuses a page that is used twice. The contents of overflow pages are not read.
    pub fn walk(&self, visit: &mut dyn FnMut(&PageUse<'_>)) -> Result<PageUsage> {
        let (usage, damage) = self.survey(None, &mut |page| {
            visit(page);
            true
        });
        damage.into_iter().next().map_or(Ok(usage), Err)
    }

    /// Does the same as [`walk`](Self::walk), but continues with the next table after damage. Returns the usage of the
    /// visited pages, and the first damage of each table. Unreachable pages are listed only if there is no damage. If
    /// `visit` returns false, the walk ends, and the last damage is the cancellation.
    ///
    /// `seen` has the contents of pages that were recorded while this file was copied; these pages are not read again.
    pub fn survey(&self, seen: Option<&Seen>, visit: &mut dyn FnMut(&PageUse<'_>) -> bool) -> (PageUsage, Vec<Error>) {
        let seen = seen.filter(|seen| seen.covers(&self.orders()));
        let mut walk = Walk { seen, visit, used: Runs::default(), usage: PageUsage::default() };
        walk.used.add(0, META_PAGES);
        let meta = PageUse { number: 0, count: META_PAGES, kind: PageKind::Meta, table: MAIN };
        if !(walk.visit)(&meta) {
            return (walk.usage, vec![cancelled()]);
        }
        let (free, main) = (self.free_table(), self.main_table());
        let mut damage = Vec::new();
        for table in [&free, &main].into_iter().chain(self.tables.values()) {
            let Err(error) = walk.table(table.reader(&self.store)) else { continue };
            let is_cancelled = error.kind == ErrorKind::Cancelled;
            damage.push(error);
            if is_cancelled {
                return (walk.usage, damage);
            }
        }
        let free = free.reader(&self.store);
        damage.extend(self.each_free(free, |_, number| walk.add(free.name, number, 1, PageKind::Free)).err());
        if damage.is_empty() {
            walk.usage.unreachable = walk.used.gaps(self.pages());
        }
        (walk.usage, damage)
    }

    /// Returns the pages of the tables `names`, of the main table, and of the table of free pages (but not the free
    /// pages). Ignores names without a table. Checks these tables as [`walk`](Self::walk) does.
    pub(crate) fn pages_of<'n>(&self, names: impl Iterator<Item = &'n [u8]>) -> Result<Runs> {
        let mut walk = Walk { seen: None, visit: &mut |_| true, used: Runs::default(), usage: PageUsage::default() };
        let (free, main) = (self.free_table(), self.main_table());
        for table in names.filter_map(|name| self.tables.get(name)).chain([&main, &free]) {
            walk.table(table.reader(&self.store))?;
        }
        Ok(walk.used)
    }

    pub(crate) fn free_table(&self) -> NamedTable {
        NamedTable::new(b"free", self.meta.free)
    }

    /// Returns for each transaction from `since` on the number of pages that it freed and that are still free.
    pub fn freed(&self, since: u64) -> Result<Vec<(u64, u64)>> {
        let (free, mut freed) = (self.free_table(), Vec::new());
        let mut cursor = free.reader(&self.store).cursor()?;
        cursor.seek(&since.to_ne_bytes())?;
        while let Some((txn, list)) = cursor.next()? {
            let (Ok(txn), Some(count)) = (txn.try_into(), list.first_chunk()) else {
                return Err(Error::corrupt(free.record.root, "a malformed list of free pages").of_table("free"));
            };
            freed.push((u64::from_ne_bytes(txn), u64::from_ne_bytes(*count)));
        }
        Ok(freed)
    }

    fn main_table(&self) -> NamedTable {
        let rules = TreeRules::main(self.meta.main.flags);
        NamedTable { rules, ..NamedTable::new(MAIN.as_bytes(), self.meta.main) }
    }

    /// Returns the free pages that LMDB may use in the next transaction: all except for those that the last transaction
    /// has freed (`mdb_page_alloc`).
    pub(crate) fn reusable(&self) -> Result<Runs> {
        let (free, mut runs) = (self.free_table(), Runs::default());
        self.each_free(free.reader(&self.store), |txn, number| {
            let is_new = txn >= self.txn() || runs.add(number, 1);
            if is_new { Ok(()) } else { Err(used_twice(number).of_table("free")) }
        })?;
        Ok(runs)
    }

    /// Calls `see` with each free page and the transaction that freed it. Each value is a count followed by that many
    /// page numbers (`mdb_freelist_save`).
    fn each_free(&self, table: TableReader<'_>, mut see: impl FnMut(u64, u64) -> Result<()>) -> Result<()> {
        let mut cursor = table.cursor()?;
        while let Some((txn, list)) = cursor.next()? {
            let mut numbers = list.chunks_exact(8).map(|number| read_u64(number, 0));
            let count = numbers.next().and_then(|count| usize::try_from(count).ok());
            let Some(count) = count.filter(|count| *count <= numbers.len()) else {
                let message = "a list of free pages shorter than its count";
                return Err(Error::corrupt(table.record.root, message).of_table(table.name));
            };
            for number in numbers.take(count) {
                if !(META_PAGES..=self.meta.last_page).contains(&number) {
                    let error = Error::corrupt(number, "a free page that is outside of the file");
                    return Err(error.of_table(table.name));
                }
                see(read_u64(txn, 0), number)?;
            }
        }
        Ok(())
    }
}

struct Walk<'v> {
    seen: Option<&'v Seen>,
    visit: &'v mut dyn FnMut(&PageUse<'_>) -> bool,
    used: Runs,
    usage: PageUsage,
}

/// A tree that is being visited.
struct Tree<'r> {
    table: TableReader<'r>,
    /// The record of the tree: the tree of the table itself, or one of its trees of values.
    record: Table,
    rules: TreeRules,
    /// The counts of the pages and values visited.
    seen: Table,
}

impl Walk<'_> {
    fn add(&mut self, table: &str, number: u64, count: u64, kind: PageKind) -> Result<()> {
        if !self.used.add(number, count) {
            return Err(used_twice(number).of_table(table));
        }
        let counter = match kind {
            PageKind::Branch => &mut self.usage.branch,
            PageKind::Leaf => &mut self.usage.leaf,
            PageKind::Free => &mut self.usage.free,
            PageKind::Overflow | PageKind::Meta => &mut self.usage.overflow,
        };
        *counter += count;
        if (self.visit)(&PageUse { number, count, kind, table }) { Ok(()) } else { Err(cancelled()) }
    }

    fn table(&mut self, table: TableReader<'_>) -> Result<()> {
        self.tree(table, table.record, table.rules).map_err(|error| error.of_table(table.name))
    }

    fn tree(&mut self, table: TableReader<'_>, record: Table, rules: TreeRules) -> Result<()> {
        record.check_depth()?;
        let mut tree = Tree { table, record, rules, seen: Table::empty(record.flags) };
        if record.depth > 0 {
            self.page(&mut tree, record.root, 1, Within::default())?;
        }
        rules.check_record(&record, &tree.seen)
    }

    fn page(&mut self, tree: &mut Tree<'_>, number: u64, level: u16, within: Within<&[u8]>) -> Result<()> {
        let place = Place { is_leaf: level == tree.record.depth, within };
        match self.contents(tree, number, place)? {
            Contents::Branch(branch) => {
                self.add(tree.table.name, number, 1, PageKind::Branch)?;
                tree.seen.branch_pages += 1;
                let mut children = branch.children().enumerate();
                children.try_for_each(|(at, child)| self.page(tree, child, level + 1, branch.within(at, within)))
            }
            Contents::Leaf(leaf) => {
                self.add(tree.table.name, number, 1, PageKind::Leaf)?;
                tree.seen.leaf_pages += 1;
                tree.seen.entries += leaf.entries;
                let mut pointers = leaf.pointers().iter();
                pointers.try_for_each(|(_, pointer)| self.follow(tree, pointer))
            }
            Contents::Overflow(_) => Ok(()), // The rules have refused such contents.
        }
    }

    /// Returns the contents of a page, which are read from the file unless `seen` has them.
    fn contents(&self, tree: &Tree<'_>, number: u64, place: Place<'_>) -> Result<Contents> {
        if let Some((seen, contents)) = self.seen.and_then(|seen| Some((seen, seen.take(number)?))) {
            tree.rules.check(number, &contents, seen.orders(), place)?;
            return Ok(contents);
        }
        tree.rules.page(number, &tree.table.store.next_view(number)?, place)
    }

    fn follow(&mut self, tree: &mut Tree<'_>, pointer: &Pointer) -> Result<()> {
        match pointer {
            Pointer::Large(node) => {
                let Large { first, pages } = self.large(tree.table, *node)?;
                tree.seen.overflow_pages += pages;
                self.add(tree.table.name, first, pages, PageKind::Overflow)
            }
            Pointer::Values(record) => {
                self.tree(tree.table, **record, tree.rules.values(record.pad))?;
                tree.seen.entries += record.entries - 1; // The leaf has counted one.
                Ok(())
            }
            Pointer::Table(_) => Ok(()),
        }
    }

    fn large(&self, table: TableReader<'_>, node: LargeNode) -> Result<Large> {
        match self.seen.and_then(|seen| seen.take(node.first)) {
            Some(Contents::Overflow(header)) => table.store.source.large(&header, node),
            _ => table.store.large(node),
        }
    }
}

/// A set of page numbers, stored as runs, because many pages make few runs.
#[derive(Debug, Default)]
pub(crate) struct Runs(BTreeMap<u64, u64>);

impl Runs {
    /// Adds `count` numbers from `start` on and returns true. Returns false and adds nothing if the set has one of
    /// these numbers.
    pub fn add(&mut self, start: u64, count: u64) -> bool {
        let mut end = start.saturating_add(count);
        if self.0.range(..end).next_back().is_some_and(|(_, &before)| before > start) {
            return false;
        }
        if let Some(after) = self.0.remove(&end) {
            end = after;
        }
        match self.0.range_mut(..start).next_back() {
            Some((_, before)) if *before == start => *before = end,
            _ => {
                self.0.insert(start, end);
            }
        }
        true
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the runs of at least `least` numbers, and the set of all other numbers.
    pub fn split(self, least: u64) -> (Vec<Range<u64>>, Self) {
        let (long, short) = self.0.into_iter().partition::<Vec<_>, _>(|(start, end)| end - start >= least);
        (long.into_iter().map(|(start, end)| start..end).collect(), Self(short.into_iter().collect()))
    }

    /// Returns all numbers in descending order.
    pub fn descending(&self) -> impl Iterator<Item = u64> {
        self.0.iter().rev().flat_map(|(&start, &end)| (start..end).rev())
    }

    /// Returns the runs of numbers below `end` that are not in the set.
    pub fn gaps(&self, end: u64) -> Vec<Range<u64>> {
        let ends = std::iter::once(0).chain(self.0.values().copied());
        let starts = self.0.keys().copied().chain(std::iter::once(end));
        ends.zip(starts).map(|(from, to)| from..to.min(end)).filter(|gap| !gap.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Runs;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn is_a_set(adds in proptest::collection::vec((0u64..60, 1u64..6), 0..40)) {
            let (mut runs, mut model) = (Runs::default(), [false; 70]);
            for (start, count) in adds {
                let range = usize::try_from(start).unwrap()..usize::try_from(start + count).unwrap();
                let free = !model[range.clone()].contains(&true);
                prop_assert_eq!(runs.add(start, count), free);
                if free {
                    model[range].fill(true);
                }
            }
            let gaps = runs.gaps(70);
            for (number, used) in (0..70).zip(model) {
                prop_assert_eq!(gaps.iter().any(|gap| gap.contains(&number)), !used);
            }
            let members = (0u32..70).zip(model).rev().filter(|(_, used)| *used);
            prop_assert!(runs.descending().eq(members.map(|(number, _)| number.into())));
            prop_assert!(gaps.windows(2).all(|pair| pair[0].end < pair[1].start));
        }
    }
}
