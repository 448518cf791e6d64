//! Keys and values in order.

use super::path::Path;
use super::{BlockCache, TableReader};
use crate::Result;
use crate::layout::node;

/// Goes through a table; values of the same key come one after the other.
#[derive(Debug)]
pub struct Cursor<'r> {
    table: TableReader<'r>,
    keys: Path,
    /// Values of the key, when it has many.
    values: Option<Path>,
    /// The value, when it is on overflow pages.
    large: Vec<u8>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Before,
    /// On a value that is still to be given.
    Found,
    Given,
    End,
}

impl<'r> Cursor<'r> {
    pub(super) fn new(table: TableReader<'r>) -> Result<Self> {
        let keys = Path::new(&table.record, table.rules, table.store.source.pages)?;
        Ok(Self { table, keys, values: None, large: Vec::new(), state: State::Before })
    }

    /// Goes to the first key that is not below `key`, so that `next` gives its first value: whether
    /// it is that one.
    pub fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.named(|cursor| {
            cursor.keys.budget = cursor.store().source.pages;
            let found = cursor.keys.seek(cursor.store(), key)?;
            cursor.at_key(found)?;
            Ok(found && cursor.keys.node()?.key == key)
        })
    }

    /// Whether the key has the value.
    pub(super) fn has(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        if !self.seek(key)? {
            return Ok(false);
        }
        let Some(mut values) = self.values.take() else {
            return Ok(self.next()?.is_some_and(|(_, found)| found == value));
        };
        let found = self.named(|cursor| values.seek(cursor.store(), value))?;
        Ok(found && values.node()?.key == value)
    }

    pub(super) fn find(&mut self, key: &[u8], like: &[u8]) -> Result<Option<Vec<u8>>> {
        if !self.seek(key)? {
            return Ok(None);
        }
        let rules = self.table.rules.values(0);
        let same = |found: &[u8]| rules.compare(found, like).is_eq().then(|| found.to_vec());
        let Some(mut values) = self.values.take() else {
            return Ok(self.next()?.and_then(|(_, found)| same(found)));
        };
        let found = self.named(|cursor| values.seek(cursor.store(), like))?;
        Ok(if found { same(values.node()?.key) } else { None })
    }

    pub(super) fn counted(&mut self, key: &[u8]) -> Result<Option<(Vec<u8>, u64)>> {
        if !self.seek(key)? {
            return Ok(None);
        }
        let count = self.named(|cursor| cursor.count())?;
        Ok(self.next()?.map(|(_, first)| (first.to_vec(), count)))
    }

    /// Values of the key in hand, as its node tells.
    fn count(&self) -> Result<u64> {
        let node = self.keys.node()?;
        if node.flags & node::DUPDATA == 0 {
            return Ok(1);
        }
        if node.flags & node::SUBDATA == 0 {
            return Ok(self.keys.sub_page()?.count as u64);
        }
        Ok(self.keys.record()?.entries)
    }

    pub(super) fn last_key(&mut self) -> Result<Option<Vec<u8>>> {
        let found = self.named(|cursor| cursor.keys.last(cursor.store()))?;
        Ok(if found { Some(self.keys.node()?.key.to_vec()) } else { None })
    }

    /// The next key and value, `None` after the last.
    #[allow(clippy::should_implement_trait)] // What it lends is valid until the next call only.
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        self.named(Self::step)?;
        if self.state == State::End {
            return Ok(None);
        }
        self.state = State::Given;
        let node = self.keys.node()?;
        let value = match &self.values {
            Some(values) => values.node()?.key,
            None if node.flags & node::BIGDATA != 0 => &self.large,
            None => node.data,
        };
        Ok(Some((node.key, value)))
    }

    /// All values of the key before the one in hand, at first of the last key; `None` before the first.
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

    /// Leaves out what other values the key has: `next` gives the first of the next key.
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

    /// Takes up the key on which `keys` stands, if it does.
    fn at_key(&mut self, found: bool) -> Result<()> {
        self.state = if found { State::Found } else { State::End };
        self.values = None;
        if !found {
            return Ok(());
        }
        let node = self.keys.node()?;
        if node.flags & node::DUPDATA != 0 {
            self.values = Some(self.values_here()?);
        } else if let Some(large) = node.large() {
            let (large, pages) = self.store().large_value(large)?;
            self.large = large;
            self.keys.count_visited(pages)?;
        }
        Ok(())
    }

    fn values_here(&self) -> Result<Path> {
        let (rules, budget) = (&self.table.rules, self.keys.budget);
        if self.keys.node()?.flags & node::SUBDATA == 0 {
            let (page, view) = (self.keys.page(), self.keys.sub_page()?);
            return Ok(Path::in_sub_page(page, view, rules.values(0), budget));
        }
        let record = self.keys.record()?;
        let mut values = Path::new(&record, rules.values(record.pad), budget)?;
        values.first(self.store())?;
        Ok(values)
    }
}
