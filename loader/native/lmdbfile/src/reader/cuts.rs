//! Keys that cut a table into parts of about as many pages.

use super::TableReader;
use super::view::{Kind, View};
use crate::{Error, Result};

impl TableReader<'_> {
    /// Keys in ascending order at which the table may be cut, from the highest level of pages that has `wanted` of
    /// them, or else from the lowest above the leaves. The part before the first key is as large as the others.
    pub fn cuts(&self, wanted: usize) -> Result<Vec<Vec<u8>>> {
        self.find_cuts(wanted).map_err(|error| error.of_table(self.name))
    }

    fn find_cuts(&self, wanted: usize) -> Result<Vec<Vec<u8>>> {
        self.record.check_depth()?;
        let (mut keys, mut pages) = (Vec::new(), vec![self.record.root]);
        for _ in 1..self.record.depth {
            if keys.len() >= wanted {
                break;
            }
            (keys, pages) = self.level_below(&keys, &pages)?;
        }
        self.check_order(&keys)?;
        Ok(keys)
    }

    /// The children of branch pages and the keys between them: `keys` stand between `pages`.
    fn level_below(&self, keys: &[Vec<u8>], pages: &[u64]) -> Result<(Vec<Vec<u8>>, Vec<u64>)> {
        let (mut below, mut children) = (Vec::new(), Vec::new());
        for (at, &page) in pages.iter().enumerate() {
            let view = self.branch(page)?;
            // The first key of a branch means nothing: the one above does.
            below.extend(at.checked_sub(1).and_then(|before| keys.get(before)).cloned());
            below.extend((1..view.count).map(|at| view.key(at).to_vec()));
            children.extend((0..view.count).map(|at| view.child(at)));
            if children.len() as u64 > self.store.pages {
                return Err(Error::corrupt(page, "pages are used twice"));
            }
        }
        Ok((below, children))
    }

    fn branch(&self, page: u64) -> Result<View> {
        let view = self.store.view(page)?;
        if view.kind == Kind::Branch {
            return Ok(view);
        }
        Err(Error::corrupt(page, "a tree of another depth than its record says"))
    }

    fn check_order(&self, keys: &[Vec<u8>]) -> Result<()> {
        let ascending = |pair: &[Vec<u8>]| self.key_order.compare(&pair[0], &pair[1]).is_lt();
        if keys.windows(2).all(ascending) {
            return Ok(());
        }
        Err(Error::corrupt(self.record.root, super::path::OUT_OF_ORDER))
    }
}
