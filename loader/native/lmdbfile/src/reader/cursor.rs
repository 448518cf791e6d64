//! Iteration over keys and values in order.

use super::path::{NodeValues, Path};
use super::view::View;
use super::{BlockCache, TableReader};
use crate::layout::node;
use crate::{Error, Result, Table};

/// Iterates over the keys of a table and over the values of each key.
pub struct Cursor<'r> {
    table: TableReader<'r>,
    keys: Path,
    /// The values of the current key, if it has many.
    values: Option<Path>,
    /// The current value, if it is on overflow pages.
    large: Vec<u8>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Before,
    /// At a value that `next` has not returned yet.
    Found,
    Given,
    End,
}

impl<'r> Cursor<'r> {
    pub(super) fn new(table: TableReader<'r>) -> Result<Self> {
        let keys = Path::new(&table.record, table.rules, table.store.source.pages)?;
        Ok(Self { table, keys, values: None, large: Vec::new(), state: State::Before })
    }

    /// Moves to the first key that is at least `key`; `next` returns its first value. Returns whether the keys are
    /// equal.
    pub fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.named(|cursor| {
            cursor.keys.budget = cursor.store().source.pages;
            let found = cursor.keys.seek(cursor.store(), key)?;
            cursor.at_key(found)?;
            Ok(found && cursor.keys.node()?.key == key)
        })
    }

    /// See [`TableReader::find`].
    pub(super) fn find(&mut self, key: &[u8], like: &[u8]) -> Result<Option<Vec<u8>>> {
        if !self.seek(key)? {
            return Ok(None);
        }
        let rules = self.table.rules.values(0);
        let if_equal = |value: &[u8]| rules.compare(value, like).is_eq().then(|| value.to_vec());
        let Some(mut values) = self.values.take() else {
            return Ok(self.next()?.and_then(|(_, value)| if_equal(value)));
        };
        let found = self.named(|cursor| values.seek(cursor.store(), like))?;
        Ok(if found { if_equal(values.node()?.key) } else { None })
    }

    /// See [`TableReader::counted`].
    pub(super) fn counted(&mut self, key: &[u8]) -> Result<Option<(Vec<u8>, u64)>> {
        if !self.seek(key)? {
            return Ok(None);
        }
        let count = self.named(|cursor| Ok(cursor.keys.values()?.count()))?;
        Ok(self.next()?.map(|(_, first)| (first.to_vec(), count)))
    }

    pub(super) fn last_key(&mut self) -> Result<Option<Vec<u8>>> {
        let found = self.named(|cursor| cursor.keys.last(cursor.store()))?;
        Ok(if found { Some(self.keys.node()?.key.to_vec()) } else { None })
    }

    /// Returns the next key and value; `None` after the last.
    #[allow(clippy::should_implement_trait, reason = "the bytes are valid until the next call")]
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.named(Self::step)?;
        if self.state == State::End {
            return Ok(None);
        }
        self.state = State::Given;
        self.current().map(Some)
    }

    /// Returns the key and value that `next` has returned last.
    pub fn current(&self) -> Result<(&[u8], &[u8])> {
        let node = self.keys.node()?;
        let value = match &self.values {
            Some(values) => values.node()?.key,
            None if node.flags & node::BIGDATA != 0 => &self.large,
            None => node.data,
        };
        Ok((node.key, value))
    }

    /// Moves to the previous key, or to the last key if the cursor has not been moved, and returns all values of the
    /// key; `None` before the first key.
    pub fn previous(&mut self) -> Result<Option<Vec<Vec<u8>>>> {
        self.named(|cursor| {
            let store = cursor.store();
            let found = match cursor.state {
                State::Before => cursor.keys.last(store)?,
                _ => cursor.keys.previous(store)?,
            };
            cursor.at_key(found)?;
            if !found {
                return Ok(None);
            }
            cursor.state = State::Given;
            let Some(mut path) = cursor.values.take() else {
                let node = cursor.keys.node()?;
                let is_large = node.flags & node::BIGDATA != 0;
                let value = if is_large { &cursor.large } else { node.data };
                return Ok(Some(vec![value.to_vec()]));
            };
            let mut values = vec![path.node()?.key.to_vec()];
            while path.next(store)? {
                values.push(path.node()?.key.to_vec());
            }
            cursor.keys.budget = path.budget;
            Ok(Some(values))
        })
    }

    /// Skips the remaining values of the key, so that `next` returns the first value of the next key.
    pub fn skip(&mut self) {
        if self.state == State::Given {
            if let Some(values) = self.values.take() {
                self.keys.budget = values.budget;
            }
        }
    }

    fn store(&self) -> &'r BlockCache {
        self.table.store
    }

    fn named<T>(&mut self, action: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        action(self).map_err(|error| {
            self.state = State::End;
            error.of_table(self.table.name)
        })
    }

    fn step(&mut self) -> Result<()> {
        let store = self.store();
        let more = match self.state {
            State::Found | State::End => return Ok(()),
            State::Before => self.keys.first(store)?,
            State::Given => {
                if let Some(values) = &mut self.values {
                    if values.next(store)? {
                        return Ok(());
                    }
                    self.keys.budget = values.budget;
                }
                self.keys.next(store)?
            }
        };
        self.at_key(more)
    }

    /// Makes the key at the position of `keys` the current key. `found` is false if there is no such key.
    fn at_key(&mut self, found: bool) -> Result<()> {
        self.state = if found { State::Found } else { State::End };
        self.values = None;
        if !found {
            return Ok(());
        }
        let (rules, budget) = (&self.table.rules, self.keys.budget);
        match self.keys.values()? {
            NodeValues::One => {
                if let Some(large) = self.keys.node()?.large() {
                    let (large, pages) = self.store().large_value(large)?;
                    self.large = large;
                    self.keys.count_visited(pages)?;
                }
            }
            NodeValues::SubPage(view) => {
                let page = self.keys.page();
                self.values = Some(Path::in_sub_page(page, view, rules.values(0), budget));
            }
            NodeValues::Tree(record) => {
                let mut values = Path::new(&record, rules.values(record.pad), budget)?;
                values.first(self.store())?;
                self.values = Some(values);
            }
        }
        Ok(())
    }
}

/// A cursor with a copy of the record at its position.
pub struct Peekable<'r> {
    cursor: Cursor<'r>,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    /// Whether the cursor is at a record. If not, it is at the end.
    pub live: bool,
    /// Whether the value is the first value of its key.
    pub is_first: bool,
}

impl<'r> Peekable<'r> {
    /// Starts at the first key that is at least `key`; with an empty `key`, at the first key.
    pub fn new(table: &TableReader<'r>, key: &[u8]) -> Result<Self> {
        let cursor = table.cursor()?;
        let mut peekable = Self { cursor, key: Vec::new(), value: Vec::new(), live: false, is_first: true };
        if key.is_empty() {
            peekable.step()?;
        } else {
            peekable.seek(key)?;
        }
        Ok(peekable)
    }

    /// Moves to the first key that is at least `key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.cursor.seek(key)?;
        self.step()
    }

    pub fn step(&mut self) -> Result<()> {
        let next = self.cursor.next()?;
        self.live = next.is_some();
        if let Some((key, value)) = next {
            self.is_first = self.key != key;
            if self.is_first {
                self.key.clear();
                self.key.extend_from_slice(key);
            }
            self.value.clear();
            self.value.extend_from_slice(value);
        }
        Ok(())
    }

    /// Returns whether the current record has this key.
    pub fn is_at(&self, key: &[u8]) -> bool {
        self.live && self.key == key
    }
}

/// Iterates over the keys of a table without reading their trees of values.
pub struct Keys<'r> {
    table: TableReader<'r>,
    path: Path,
    /// The values of the key, if they are on a sub-page.
    few: Option<View>,
    /// Whether `next` has been called.
    begun: bool,
}

/// A key and a summary of its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyValues<'k> {
    pub key: &'k [u8],
    /// Number of values of the key.
    pub count: u64,
    /// The first value; `None` if the values have a tree, or if the value is on overflow pages.
    pub first: Option<&'k [u8]>,
    /// Number of pages of the tree of values.
    pub pages: u64,
}

impl<'r> TableReader<'r> {
    /// Returns an iterator that stands before the first key.
    pub fn keys(&self) -> Result<Keys<'r>> {
        let path = Path::new(&self.record, self.rules, self.store.source.pages);
        let path = path.map_err(|error| error.of_table(self.name))?;
        Ok(Keys { table: *self, path, few: None, begun: false })
    }

    /// Returns the number of pages of the table's tree, without those of its trees of values.
    pub fn pages(&self) -> Result<u64> {
        tree_pages(&self.record, self.store.source.pages).map_err(|error| error.of_table(self.name))
    }
}

impl Keys<'_> {
    /// Returns the next key; `None` after the last.
    #[allow(clippy::should_implement_trait, reason = "the bytes are valid until the next call")]
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
        let values = self.path.values()?;
        let (count, mut pages) = (values.count(), 0);
        self.few = None;
        match values {
            NodeValues::One => {}
            NodeValues::SubPage(view) => self.few = Some(view),
            NodeValues::Tree(record) => pages = tree_pages(&record, store.source.pages)?,
        }
        self.path.count_visited(pages)?;
        let leaf = self.path.node()?;
        let single = (leaf.flags & (node::DUPDATA | node::BIGDATA) == 0).then_some(leaf.data);
        let first = self.few.as_ref().map(|few| few.key(0)).or(single);
        Ok(Some(KeyValues { key: leaf.key, count, first, pages }))
    }
}

/// Returns the number of a tree's pages according to its record. Fails if that exceeds `file_pages`, those of the file.
fn tree_pages(tree: &Table, file_pages: u64) -> Result<u64> {
    let counts = [tree.branch_pages, tree.leaf_pages, tree.overflow_pages];
    let sum = counts.into_iter().try_fold(0_u64, u64::checked_add);
    let too_many = || Error::corrupt(tree.root, "a tree of more pages than the file has");
    sum.filter(|pages| *pages <= file_pages).ok_or_else(too_many)
}
