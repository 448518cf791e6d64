//! One stored entry: taken apart, its normal forms made again, its keys looked for.

use std::cmp::Ordering;

use lmdbfile::{Order, Reader};
use schema::Schema;
use values::keys::Key;

use crate::blob::{self, Attribute};
use crate::columns::Column;
use crate::indexer::Keys;
use crate::verify::{Database, damaged, read_node, wrong};
use crate::{Result, Settings, rows};

#[derive(Debug)]
pub struct Stored<'a> {
    pub database: &'a Database<'a>,
    pub schema: &'a Schema,
    pub settings: &'a Settings,
}

/// Keys of one entry: table and key.
#[derive(Debug, Default)]
struct Collected(Vec<(usize, Key)>);

impl Keys for Collected {
    fn short(&mut self, table: usize, key: u32) {
        self.0.push((table, Key::new(&key.to_be_bytes())));
    }

    fn long(&mut self, table: usize, key: Key) {
        self.0.push((table, key));
    }
}

impl Stored<'_> {
    /// id2v has an order of back-mdb's own: by ID, then by number. That of its values is the attributes'.
    pub fn set_orders(reader: &mut Reader) {
        let values = |left: &[u8], right: &[u8]| {
            if left == right { Ordering::Equal } else { Ordering::Less }
        };
        reader.set_orders(b"id2v", Order::Custom(rows::compare_keys), Order::Custom(values));
    }

    /// Takes an entry's value apart and tells its index keys. All must be as we would make it.
    pub fn entry(
        &self,
        id: u64,
        value: &[u8],
        tell: &mut impl FnMut(usize, Key) -> Result<()>,
    ) -> Result<()> {
        let parts = blob::read(value)?;
        let (mut classes, mut keys) = (Vec::new(), Collected::default());
        for one in &parts.attributes {
            let column = self.database.column(one.number)?;
            let apart = if one.apart { self.apart(id, one)? } else { Vec::new() };
            let values: Vec<&[u8]> = self.values(id, column, one, &apart)?;
            if column.text == "objectClass" && classes.is_empty() {
                classes.extend_from_slice(&one.values);
            }
            for indexer in &column.indexers {
                let names = if indexer.of_classes() {
                    self.schema.class_index_values(&values)
                } else {
                    Vec::new()
                };
                let made = indexer.each(self.settings, values.iter().copied(), &names, &mut keys);
                made.map_err(|refusal| {
                    wrong(format!("entry {id}, {}: {}", column.text, refusal.0))
                })?;
            }
        }
        if !classes.is_empty() && parts.flags != self.schema.flags(&classes) {
            return Err(wrong(format!("entry {id} has other flags than its object classes")));
        }
        keys.0.into_iter().try_for_each(|(table, key)| tell(table, key))
    }

    /// What matching rules see; stored normal forms are held against their values.
    fn values<'v>(
        &self,
        id: u64,
        column: &Column,
        one: &Attribute<'v>,
        apart: &'v [(Vec<u8>, Vec<u8>)],
    ) -> Result<Vec<&'v [u8]>> {
        if one.apart {
            return Ok(apart.iter().map(|(normal, _)| normal.as_slice()).collect());
        }
        if !one.has_normals {
            return Ok(one.values.clone());
        }
        let mut made = Vec::new();
        for (value, normal) in one.values.iter().zip(&one.normals) {
            made.clear();
            let normalised = self.schema.normalise(column.attribute, value, &mut made);
            if normalised != Ok(true) || made != *normal {
                return Err(wrong(format!(
                    "entry {id}: a normal form of {} is wrong",
                    column.text
                )));
            }
        }
        Ok(one.normals.clone())
    }

    /// Normal forms and values from id2v.
    fn apart(&self, id: u64, one: &Attribute<'_>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let table =
            self.database.id2v.ok_or_else(|| wrong("values live in id2v, which is missing"))?;
        #[allow(clippy::cast_possible_truncation, reason = "back-mdb keeps 16 bits of it")]
        let key = [&id.to_ne_bytes()[..], &(one.number as u16).to_ne_bytes()].concat();
        let rows = table.get_all(&key).map_err(|error| damaged(&error))?;
        if rows.is_empty() {
            return Err(wrong(format!("entry {id}: its values are not in id2v")));
        }
        let split = |row: Vec<u8>| {
            let (rest, length) = row.split_at_checked(row.len().checked_sub(2)?)?;
            let length = usize::from(u16::from_le_bytes([length[0], length[1]]));
            let rest = rest.strip_suffix(b"\0")?;
            if length == 0 {
                return Some((rest.to_vec(), rest.to_vec()));
            }
            let (normal, value) = rest.split_at_checked(rest.len().checked_sub(length)?)?;
            Some((normal.strip_suffix(b"\0")?.to_vec(), value.to_vec()))
        };
        let rows =
            rows.into_iter().map(|row| split(row).ok_or_else(|| wrong("a row of id2v is damaged")));
        rows.collect()
    }

    /// The key's list has the ID, or its range spans it.
    pub fn has_key(&self, table: usize, key: Key, id: u64) -> Result<()> {
        let reader = self.database.index_tables[table];
        let read = |error: lmdbfile::Error| damaged(&error);
        let ok = reader.contains(key.as_bytes(), &id.to_ne_bytes()).map_err(read)? || {
            let row = reader.get_all(key.as_bytes()).map_err(read)?;
            let bound =
                |at: usize| u64::from_ne_bytes(row[at].as_slice().try_into().unwrap_or([0; 8]));
            row.len() == 3 && bound(0) == 0 && (bound(1)..=bound(2)).contains(&id)
        };
        if ok {
            return Ok(());
        }
        let name = &self.database.indexes.tables[table].name;
        Err(wrong(format!("entry {id} is missing in index {name} under key {key:?}")))
    }

    /// Its own record, and, for a leaf, the one in its parent's list.
    pub fn node(&self, id: u64) -> Result<()> {
        let read = |error: lmdbfile::Error| damaged(&error);
        let missing = || wrong(format!("entry {id} is not in dn2i"));
        let key = id.to_ne_bytes();
        let mut cursor = self.database.dn2i.cursor().map_err(read)?;
        if !cursor.seek(&key).map_err(read)? {
            return Err(missing());
        }
        let own = cursor.next().map_err(read)?.ok_or_else(missing)?.1.to_vec();
        let has_children = cursor.next().map_err(read)?.is_some_and(|(next, _)| next == key);
        let node = read_node(&own)?;
        if node.child.is_some() || node.id >= id {
            return Err(wrong(format!("entry {id}: its own record in dn2i is damaged")));
        }
        let mut expected = Vec::new();
        crate::node::child(&mut expected, node.normal, node.pretty, id, 1);
        let listed =
            || self.database.dn2i.contains(&node.id.to_ne_bytes(), &expected).map_err(read);
        if has_children || listed()? {
            Ok(())
        } else {
            Err(wrong(format!("entry {id} is not in its parent's list")))
        }
    }
}
