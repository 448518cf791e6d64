//! Generates an entry's keys for all indexes.

use std::sync::Arc;

use values::InvalidValue;
use values::keys::Key;

use super::Encoder;
use crate::checks::Profile;
use crate::indexer::{Keys, short};

/// Passes index keys to the sorter, all for one position.
pub struct Posting<'a> {
    pub postings: &'a mut extsort::Writer,
    pub position: u32,
}

impl Keys for Posting<'_> {
    #[inline]
    fn short(&mut self, table: usize, key: u32) {
        self.postings.push(table, key, self.position);
    }

    #[inline]
    fn shorts(&mut self, table: usize, keys: impl Iterator<Item = u32>) {
        self.postings.extend(table, keys, self.position);
    }

    #[inline]
    fn long(&mut self, table: usize, key: Key) {
        self.postings.push_long(table, key.bits(), length(key), self.position);
    }
}

#[allow(clippy::cast_possible_truncation, reason = "a key has at most 8 bytes")]
fn length(key: Key) -> u8 {
    key.len() as u8
}

impl Encoder<'_> {
    pub(super) fn index(&mut self, profile: &Profile, position: u32) -> Result<(), InvalidValue> {
        let mut keys = Posting { postings: &mut self.postings, position };
        for attribute in &self.draft.attributes {
            let column = self.lookup.get(attribute.column);
            for indexer in &column.indexers {
                let values = self.draft.normals_of(attribute);
                if !indexer.of_classes() {
                    indexer.each(self.shared.settings, values, &[], &mut keys)?;
                } else if attribute.column == self.checks.object_class && column.indexers.len() == 1 {
                    let (classes, class_keys) = &mut self.class_keys;
                    if !classes.as_ref().is_some_and(|last| Arc::ptr_eq(last, &profile.1)) {
                        *classes = None;
                        class_keys.0.clear();
                        let names = &profile.1.index_values;
                        indexer.each(self.shared.settings, values, names, class_keys)?;
                        *classes = Some(Arc::clone(&profile.1));
                    }
                    class_keys.0.iter().for_each(|&(table, key)| {
                        if indexer.long {
                            keys.long(table, key);
                        } else {
                            keys.short(table, short(key));
                        }
                    });
                } else {
                    let classes = self.shared.schema.class_index_values(&values.clone().collect::<Vec<_>>());
                    indexer.each(self.shared.settings, values, &classes, &mut keys)?;
                }
            }
        }
        Ok(())
    }
}
