//! The keys of a table, and how many values each has, without a look into the trees that many values have.

use super::TableReader;
use super::path::Path;
use super::view::View;
use crate::layout::node;
use crate::{Error, Result, Table};

/// Goes through the keys of a table.
#[derive(Debug)]
pub struct Keys<'r> {
    table: TableReader<'r>,
    path: Path,
    /// The values of the key, if they are on a sub-page.
    few: Option<View>,
    begun: bool,
}

/// A key with its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyValues<'k> {
    pub key: &'k [u8],
    /// How many values it has.
    pub count: u64,
    /// The first of them; `None` if they have a tree of their own, or it is on overflow pages.
    pub first: Option<&'k [u8]>,
    /// Pages of that tree.
    pub pages: u64,
}

impl<'r> TableReader<'r> {
    /// Before the first key.
    pub fn keys(&self) -> Result<Keys<'r>> {
        let path = Path::new(&self.record, self.rules, self.store.source.pages);
        let path = path.map_err(|error| error.of_table(self.name))?;
        Ok(Keys { table: *self, path, few: None, begun: false })
    }

    /// The pages of its tree; those of the trees that values have are not among them.
    pub fn pages(&self) -> Result<u64> {
        pages(&self.record, self.store.source.pages).map_err(|error| error.of_table(self.name))
    }
}

impl Keys<'_> {
    /// The next key, `None` after the last.
    #[allow(clippy::should_implement_trait)] // What it lends is valid until the next call only.
    pub fn next(&mut self) -> Result<Option<KeyValues<'_>>> {
        let name = self.table.name;
        self.step().map_err(|error| error.of_table(name))
    }

    fn step(&mut self) -> Result<Option<KeyValues<'_>>> {
        let store = self.table.store;
        let begun = std::mem::replace(&mut self.begun, true);
        let found = if begun { self.path.next(store)? } else { self.path.first(store)? };
        if !found {
            return Ok(None);
        }
        self.few = None;
        let (count, pages) = self.values()?;
        self.path.count_visited(pages)?;
        let leaf = self.path.node()?;
        let alone = (leaf.flags & (node::DUPDATA | node::BIGDATA) == 0).then_some(leaf.data);
        let first = self.few.as_ref().map(|few| few.key(0)).or(alone);
        Ok(Some(KeyValues { key: leaf.key, count, first, pages }))
    }

    /// How many the key has, and the pages of their tree.
    fn values(&mut self) -> Result<(u64, u64)> {
        let flags = self.path.node()?.flags;
        if flags & node::DUPDATA == 0 {
            return Ok((1, 0));
        }
        if flags & node::SUBDATA == 0 {
            let few = self.few.insert(self.path.sub_page()?);
            return Ok((few.count as u64, 0));
        }
        let record = self.path.record()?;
        Ok((record.entries, pages(&record, self.table.store.source.pages)?))
    }
}

/// `most`: of the file.
fn pages(tree: &Table, most: u64) -> Result<u64> {
    let parts = [tree.branch_pages, tree.leaf_pages, tree.overflow_pages];
    let told = parts.into_iter().try_fold(0_u64, u64::checked_add);
    let lie = || Error::corrupt(tree.root, "a tree of more pages than the file has");
    told.filter(|pages| *pages <= most).ok_or_else(lie)
}
