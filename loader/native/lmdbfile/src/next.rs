//! The next snapshot of an existing file: tables written anew past its last page, then one meta page by which they count.
//!
//! No page of the snapshot before is written over, so that the file has that one whole until the meta page is on the disk,
//! and the new one whole from then on. What only the old one used is free in the new one, as after a commit of LMDB.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::path::Path;

use crate::layout::node;
use crate::meta::Meta;
use crate::reader::Runs;
use crate::{Error, FileWriter, Flags, Reader, Result, Summary, Table, TreeWriter};

/// What is not committed leaves the file as it was, and as long.
#[derive(Debug)]
pub struct NextSnapshot<'r> {
    reader: &'r Reader,
    file: FileWriter,
    tables: BTreeMap<Vec<u8>, Table>,
    leftover: Leftover,
}

impl<'r> NextSnapshot<'r> {
    /// Of the file at `path`, which the reader has open and nobody else may open meanwhile. `map_size`: in bytes; LMDB
    /// may let the file grow to it from now on, if that is more than before.
    pub fn begin(reader: &'r Reader, path: &Path, map_size: u64) -> Result<Self> {
        let begin = || {
            let leftover = Leftover::of(path)?;
            let file = FileWriter::past(reader, path, map_size)?;
            Ok(Self { reader, file, tables: BTreeMap::new(), leftover })
        };
        begin().map_err(|error: Error| error.of_file(path))
    }

    /// Takes the pages of new tables.
    pub fn file(&mut self) -> &mut FileWriter {
        &mut self.file
    }

    /// A table that was written to the file: in the place of the one of this name, if there is one.
    pub fn put(&mut self, name: &[u8], table: Table) {
        self.tables.insert(name.to_vec(), table);
    }

    /// Makes the tables count; the disk has all when it returns.
    pub fn commit(mut self) -> Result<Summary> {
        common::killpoint("index.written");
        let freed = self.reader.pages_of(self.tables.keys().map(Vec::as_slice))?;
        let old = self.reader.meta;
        let main = self.main(old.main)?;
        let free = self.free(old.free, &freed)?;
        let Self { file, mut leftover, .. } = self;
        let last_page = file.pages() - 1;
        let map_size = old.map_size.max(file.map_size());
        let meta = Meta { map_size, free, main, last_page, txn: old.txn + 1 };
        file.switch(&meta, &mut || leftover.keep())
    }

    /// The table of tables.
    fn main(&mut self, old: Table) -> Result<Table> {
        let mut tables: Vec<_> = self.reader.records().collect();
        if tables.len() as u64 != old.entries {
            return Err(Error::corrupt(old.root, "more in the main table than tables"));
        }
        tables.retain(|(name, _)| !self.tables.contains_key(*name));
        tables.extend(self.tables.iter().map(|(name, table)| (name.as_slice(), *table)));
        let (order, layout) = (old.flags.key_order(), self.reader.layout());
        tables.sort_unstable_by(|left, right| order.compare(left.0, right.0));
        let mut tree = TreeWriter::new(old.flags, layout);
        for (name, table) in tables {
            let name = layout.stored_name(name);
            tree.put_node(&mut self.file, &name, &table.encode(), node::SUBDATA)?;
        }
        tree.finish(&mut self.file)
    }

    /// The table of free pages: a row for each transaction that freed some, with their count and their numbers from the
    /// greatest to the least (`mdb_freelist_save`).
    fn free(&mut self, old: Table, freed: &Runs) -> Result<Table> {
        let mut tree = TreeWriter::new(Flags::INTEGERKEY, self.reader.layout());
        let before = self.reader.free_table();
        let table = before.reader(&self.reader.store);
        let mut rows = table.cursor()?;
        while let Some((txn, pages)) = rows.next()? {
            tree.put(&mut self.file, txn, pages)?;
        }
        let mut list = vec![0; size_of::<u64>()];
        list.extend(freed.descending().flat_map(u64::to_ne_bytes));
        let count = list.len() as u64 / 8 - 1;
        list[..8].copy_from_slice(&count.to_ne_bytes());
        tree.put(&mut self.file, &(self.reader.txn() + 1).to_ne_bytes(), &list)?;
        let made = tree.finish(&mut self.file)?;
        // The page size and flags of the environment, which stand in this record.
        Ok(Table { pad: old.pad, flags: old.flags, ..made })
    }
}

/// Gives back to the file system what was written in vain. To be dropped after whoever writes.
#[derive(Debug)]
struct Leftover {
    file: File,
    length: Option<u64>,
}

impl Leftover {
    fn of(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().write(true).open(path)?;
        let length = Some(file.metadata()?.len());
        Ok(Self { file, length })
    }

    /// From now on it may count.
    fn keep(&mut self) {
        self.length = None;
    }
}

impl Drop for Leftover {
    fn drop(&mut self) {
        if let Some(length) = self.length {
            // Nobody looks at it if that fails.
            let _ = self.file.set_len(length);
        }
    }
}
