//! The databases to be merged, and the new numbers of their entries and attributes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use lmdbfile::{Flags, Layout, Peekable, Reader, TableReader};

use crate::{Error, Result};

/// back-mdb stores attribute numbers in 16 bits.
const MOST_ATTRIBUTES: usize = 65_535;

#[derive(Debug)]
pub struct Shard {
    pub path: PathBuf,
    /// Added to the ID of each entry that is not shared.
    pub offset: u64,
    /// The greatest ID in this shard.
    pub last: u64,
    /// New attribute numbers, indexed by the old ones.
    numbers: Vec<u32>,
    /// Whether all attribute numbers stay the same.
    pub is_plain: bool,
}

impl Shard {
    pub fn reader(&self) -> Result<Reader> {
        Ok(codec::tables::with_orders(Reader::open_scattered(&self.path)?))
    }

    /// Returns the new number of an attribute.
    pub fn number(&self, old: u32) -> Result<u32> {
        let new = self.numbers.get(old as usize).copied().filter(|new| *new > 0);
        new.ok_or_else(|| self.damaged(format!("attribute {old} is not in ad2i")))
    }

    pub fn damaged(&self, what: impl AsRef<str>) -> common::Error {
        Error::damaged(format!("{}: {}", self.path.display(), what.as_ref()))
    }
}

#[derive(Debug, Default)]
pub struct Shards {
    pub all: Vec<Shard>,
    /// Number of shared entries. In every shard, their IDs are 1 up to this number.
    pub shared: u64,
    /// Attribute descriptions, indexed by their new numbers, which begin at 1.
    pub descriptions: Vec<Vec<u8>>,
    pub tables: Vec<(Vec<u8>, Flags)>,
    /// Page layout of all shards; `None` without shards.
    pub layout: Option<Layout>,
}

impl Shards {
    pub fn readers(&self) -> Result<Vec<Reader>> {
        self.all.iter().map(Shard::reader).collect()
    }

    /// Returns one position per shard: the start of the shard's table `name`.
    pub fn starts<'r>(&self, readers: &'r [Reader], name: &str) -> Result<Vec<Peekable<'r>>> {
        let start = |(reader, shard): (&'r Reader, &Shard)| Ok(Peekable::new(&table(reader, &shard.path, name)?, b"")?);
        readers.iter().zip(&self.all).map(start).collect()
    }

    pub fn open(paths: &[PathBuf], shared: u64) -> Result<Self> {
        let mut shards = Self { shared, ..Self::default() };
        let mut by_description = HashMap::new();
        let mut offset = 0;
        for path in paths {
            let reader = Reader::open_scattered(path)?;
            shards.require_same_tables(path, &reader)?;
            let numbers = shards.numbers(&table(&reader, path, "ad2i")?, &mut by_description)?;
            let last = last_id(&table(&reader, path, "id2e")?, path)?;
            let is_plain = numbers.iter().zip(0..).all(|(new, old)| *new == old);
            shards.all.push(Shard { path: path.clone(), offset, last, numbers, is_plain });
            let own = last.checked_sub(shared);
            offset += own.ok_or_else(|| Error::damaged("a shard without all the shared entries"))?;
        }
        Ok(shards)
    }

    /// Returns the number of entries in all shards. A shared entry counts once.
    pub fn entries(&self) -> u64 {
        self.all.last().map_or(0, |last| last.offset + last.last)
    }

    /// Returns the new ID of an entry. The ID 0, the root of dn2i, does not change.
    pub fn id(&self, shard: &Shard, old: u64) -> Result<u64> {
        match old {
            _ if old <= self.shared => Ok(old),
            _ if old <= shard.last => Ok(old + shard.offset),
            _ => Err(shard.damaged(format!("there is no entry {old}"))),
        }
    }

    fn require_same_tables(&mut self, path: &Path, reader: &Reader) -> Result<()> {
        let flags = |name: &[u8]| reader.table(name).map(|table| table.record().flags);
        let tables: Vec<(Vec<u8>, Flags)> =
            reader.names().filter_map(|name| Some((name.to_vec(), flags(name)?))).collect();
        let layout = Some(reader.layout());
        if self.all.is_empty() {
            (self.tables, self.layout) = (tables, layout);
        } else if self.layout != layout {
            return Err(Error::damaged(format!("{}: it has another page format", path.display())));
        } else if self.tables != tables {
            return Err(Error::damaged(format!("{}: it has other tables", path.display())));
        }
        Ok(())
    }

    /// Returns new attribute numbers, indexed by the numbers in `ad2i`. New numbers have the order in which the
    /// attributes first occur, as in a single run.
    fn numbers(&mut self, ad2i: &TableReader<'_>, by_description: &mut HashMap<Vec<u8>, u32>) -> Result<Vec<u32>> {
        let mut numbers = vec![0];
        let mut cursor = ad2i.cursor()?;
        while let Some((number, text)) = cursor.next()? {
            if !codec::ad2i::follows(number, numbers.len() - 1) {
                return Err(Error::damaged("the numbers in ad2i have a gap"));
            }
            let new = *by_description.entry(text.to_vec()).or_insert_with(|| {
                self.descriptions.push(text.to_vec());
                u32::try_from(self.descriptions.len()).unwrap_or(u32::MAX)
            });
            numbers.push(new);
        }
        if self.descriptions.len() > MOST_ATTRIBUTES {
            return Err(Error::damaged("more attribute descriptions than back-mdb has numbers"));
        }
        Ok(numbers)
    }
}

/// Opens a table that every database must have.
pub fn table<'r>(reader: &'r Reader, path: &Path, name: &str) -> Result<TableReader<'r>> {
    let missing = || Error::damaged(format!("{}: it has no table {name}", path.display()));
    reader.table(name.as_bytes()).ok_or_else(missing)
}

/// Returns the greatest ID, which is the number of entries. Gaps between IDs are an error, because slapadd leaves none.
fn last_id(id2e: &TableReader<'_>, path: &Path) -> Result<u64> {
    let last = id2e.record().entries;
    let mut cursor = id2e.cursor()?;
    let exists = last == 0 || cursor.seek(&last.to_ne_bytes())?;
    let beyond = cursor.seek(&(last + 1).to_ne_bytes())?;
    let more = cursor.next()?.is_some();
    if !exists || beyond || more {
        return Err(Error::damaged(format!("{}: the IDs of its entries have gaps", path.display())));
    }
    Ok(last)
}

/// Returns the ID with which the current key begins, or 0 if the key is too short.
pub fn id_at(record: &Peekable<'_>) -> u64 {
    codec::id::first(&record.key).unwrap_or(0)
}
