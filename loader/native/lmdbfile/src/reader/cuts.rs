//! Keys that cut a table into parts of about as many pages.

use super::TableReader;
use super::contents::Within;
use crate::Result;

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
        Ok(keys)
    }

    /// The children of branch pages and the keys between them: `keys` stand between `pages`.
    fn level_below(&self, keys: &[Vec<u8>], pages: &[u64]) -> Result<(Vec<Vec<u8>>, Vec<u64>)> {
        let (mut below, mut children) = (Vec::new(), Vec::new());
        for (at, &page) in pages.iter().enumerate() {
            // The first key of a branch means nothing: the one above does.
            let from = at.checked_sub(1).map(|before| &keys[before]);
            let within = Within { from, to: keys.get(at) };
            let branch = self.rules.branch(page, &self.store.view(page)?, within.borrowed())?;
            below.extend(from.cloned());
            below.extend((1..branch.len()).map(|at| branch.key(at).to_vec()));
            children.extend(branch.children());
        }
        Ok((below, children))
    }
}
