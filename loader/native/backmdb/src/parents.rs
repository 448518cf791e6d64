//! Gives each parent of a chunk's entries an index.

use rustc_hash::FxHashMap;

use crate::encoded::{Hash, Parent};

#[derive(Debug, Default)]
pub struct ParentNumbers {
    indexes: FxHashMap<Hash, u32>,
    last: Option<(Hash, u32)>,
}

impl ParentNumbers {
    /// Begins a new chunk.
    pub fn clear(&mut self) {
        self.indexes.clear();
        self.last = None;
    }

    /// Returns the index of a parent in `all`, which it is added to if it is new.
    pub fn index(&mut self, hash: Hash, text: &[u8], child: u32, all: &mut Vec<Parent>) -> u32 {
        if let Some((_, index)) = self.last.filter(|(last, _)| *last == hash) {
            return index;
        }
        let index = *self.indexes.entry(hash).or_insert_with(|| {
            all.push(Parent { hash, text: text.into(), child });
            u32::try_from(all.len() - 1).unwrap_or(u32::MAX)
        });
        self.last = Some((hash, index));
        index
    }
}
