//! One stored entry: taken apart, its normal forms made again, its keys looked for.

use values::keys::Key;

use crate::audit::{EntryChecker, Finding, MultivalRecords};
use crate::indexer::IndexKeys;
use crate::verify::{Database, read_node, wrong};
use crate::{Result, damaged_entry};
use codec::id2e::StoredEntry;
use codec::idl::{self, IndexRecord};
use codec::{dn2i, id2v};

#[derive(Debug)]
pub struct EntryReader<'a> {
    pub database: &'a Database<'a>,
    pub judge: &'a EntryChecker<'a>,
}

impl EntryReader<'_> {
    /// Takes an entry's value apart: all of it, and its index keys, must be as we would make it.
    pub fn entry(&self, id: u64, value: &[u8]) -> Result<()> {
        let entry = StoredEntry::read_whole(value).ok_or_else(damaged_entry)?;
        let rows = self.rows(id, &entry)?;
        let (mut keys, mut found) = (IndexKeys::default(), None);
        self.judge.entry(&entry, &rows, &mut keys, &mut |_, finding| {
            found.get_or_insert(finding);
        });
        if let Some(finding) = found {
            return Err(wrong(Finding { id: Some(id), ..finding }.to_string()));
        }
        keys.0.into_iter().try_for_each(|(table, key)| self.has_key(table, key, id))
    }

    /// What the entry has in id2v.
    fn rows(&self, id: u64, entry: &StoredEntry<'_>) -> Result<MultivalRecords> {
        let mut rows = MultivalRecords::new();
        for one in entry.attributes.iter().filter(|one| one.apart) {
            let table = self.database.id2v;
            let table = table.ok_or_else(|| wrong("values live in id2v, which is missing"))?;
            #[allow(clippy::cast_possible_truncation, reason = "back-mdb keeps 16 bits of it")]
            let number = one.number as u16;
            let key = id2v::key(id, number);
            let found = table.get_all(&key)?;
            if found.is_empty() {
                return Err(wrong(format!("entry {id}: its values are not in id2v")));
            }
            rows.push((number, found));
        }
        rows.sort_by_key(|(number, _)| *number);
        Ok(rows)
    }

    /// The key's list has the ID, or its range spans it.
    fn has_key(&self, table: usize, key: Key, id: u64) -> Result<()> {
        let reader = self.database.index_tables[table];
        let ok = reader.contains(key.as_bytes(), &id.to_ne_bytes())? || {
            let row = idl::read(&reader.get_all(key.as_bytes())?);
            matches!(row, Some((IndexRecord::Range(low, high), _)) if (low..=high).contains(&id))
        };
        if ok {
            return Ok(());
        }
        let name = &self.database.indexes.tables[table].name;
        Err(wrong(format!("entry {id} is missing in index {name} under key {key:?}")))
    }

    /// Its own record, and, for a leaf, the one in its parent's list.
    pub fn node(&self, id: u64) -> Result<()> {
        let missing = || wrong(format!("entry {id} is not in dn2i"));
        let key = id.to_ne_bytes();
        let mut cursor = self.database.dn2i.cursor()?;
        if !cursor.seek(&key)? {
            return Err(missing());
        }
        let own = cursor.next()?.ok_or_else(missing)?.1.to_vec();
        let has_children = cursor.next()?.is_some_and(|(next, _)| next == key);
        let found = read_node(&own)?;
        if found.child.is_some() || found.id == id {
            return Err(wrong(format!("entry {id}: its own record in dn2i is damaged")));
        }
        let mut expected = Vec::new();
        dn2i::child(&mut expected, found.normal, found.pretty, id, 1);
        let listed = || self.database.dn2i.contains(&found.id.to_ne_bytes(), &expected);
        if has_children || listed()? {
            Ok(())
        } else {
            Err(wrong(format!("entry {id} is not in its parent's list")))
        }
    }
}
