//! Generates the index keys of stored entries.

use std::sync::Arc;

use codec::{id2e, id2v};
use lmdbfile::TableReader;
use schema::Schema;

use crate::audit::indexes::ConfiguredIndexes;
use crate::descriptions::{AttributeDescription, AttributeDescriptions};
use crate::indexer::Keys;
use crate::{Code, Error, Result, damaged_entry};

/// Generates the keys of the configured indexes, without checking the entries.
pub struct StoredKeys<'a> {
    schema: &'a Schema,
    configured: &'a ConfiguredIndexes,
    /// Indexed attributes by ad2i number minus 1. `None`: neither the attribute nor a super-type is indexed, or the
    /// schema does not define the attribute.
    columns: Vec<Option<Arc<AttributeDescription>>>,
}

impl<'a> StoredKeys<'a> {
    /// `texts`: the descriptions in ad2i. Fails if an attribute has an unsupported matching rule.
    pub fn new(schema: &'a Schema, configured: &'a ConfiguredIndexes, texts: &[String]) -> Result<Self> {
        let all = AttributeDescriptions::new(schema, &configured.settings, &configured.indexes);
        let column = |text: &String| all.column(text.as_bytes()).ok().filter(|column| !column.indexers.is_empty());
        let columns: Vec<_> = texts.iter().map(column).collect();
        for column in columns.iter().flatten() {
            if let Some(rule) = &column.unproven {
                let message = format!("index keys of {}, which has {rule}", column.text);
                return Err(Error::new(Code::Unproven, message));
            }
        }
        Ok(Self { schema, configured, columns })
    }

    fn column(&self, number: u32) -> Option<&AttributeDescription> {
        self.columns.get((number as usize).checked_sub(1)?)?.as_deref()
    }

    /// Generates the keys of an entry. `id2v`: the table, if the file has one.
    pub fn of_entry(&self, id: u64, value: &[u8], id2v: Option<&TableReader<'_>>, keys: &mut impl Keys) -> Result<()> {
        id2e::each(value, damaged_entry, |stored| {
            let Some(column) = self.column(stored.number) else { return Ok(()) };
            if !stored.apart {
                return self.of_values(column, &stored.compared(), keys);
            }
            let table = id2v.ok_or_else(damaged_entry)?;
            let rows = id2v::rows(table, id, stored.number)?;
            let values = rows.iter().map(|row| id2v::read_row(row, stored.has_normals));
            let values: Vec<_> = values.collect::<Option<_>>().ok_or_else(damaged_entry)?;
            self.of_values(column, &values.iter().map(|(normal, _)| *normal), keys)
        })
    }

    #[inline]
    fn of_values<'v>(
        &self,
        column: &AttributeDescription,
        values: &(impl Iterator<Item = &'v [u8]> + Clone),
        keys: &mut impl Keys,
    ) -> Result<()> {
        for indexer in &column.indexers {
            let classes = if indexer.of_classes() {
                self.schema.class_index_values(&values.clone().collect::<Vec<_>>())
            } else {
                Vec::new()
            };
            indexer
                .each(&self.configured.settings, values.clone(), &classes, keys)
                .map_err(|refusal| unkeyed(column, &refusal.0))?;
        }
        Ok(())
    }
}

fn unkeyed(column: &AttributeDescription, reason: &str) -> Error {
    Error::new(Code::Unproven, format!("no index key of {} can be made: {reason}", column.text))
}
