//! Adds a snapshot to an existing file: writes new tables to long runs of free pages and after the last page, then a
//! meta page that commits them.
//!
//! Pages of the previous snapshot and pages that its transaction has freed are not overwritten. So the file has the
//! previous snapshot until the meta page is on the disk, and the new one afterwards. Pages that only the previous
//! snapshot used become free, as after a commit of LMDB.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::path::Path;

use crate::meta::Meta;
use crate::reader::Runs;
use crate::{Error, FileWriter, Flags, Reader, Result, Summary, Table, TreeWriter};

/// A snapshot under construction. If it is dropped without a commit, the file keeps its content and its length.
pub struct NextSnapshot<'r> {
    reader: &'r Reader,
    file: FileWriter,
    tables: BTreeMap<Vec<u8>, Table>,
    /// Free pages that remain free: those in short runs, and in the end those in long runs that were not written.
    free: Runs,
    leftover: Leftover,
}

/// Minimum number of pages in a run of free pages. Shorter runs are not written to: each run needs a separate write.
const LONG_RUN: u64 = 32;

impl<'r> NextSnapshot<'r> {
    /// Opens the file for writing. `reader` must have the newest snapshot, and nobody else may have the file open.
    /// `map_size` (in bytes) replaces that of the file if it is larger.
    pub fn begin(reader: &'r Reader, path: &Path, map_size: u64) -> Result<Self> {
        let begin = || {
            let leftover = Leftover::of(path)?;
            let (long, free) = reader.reusable()?.split(LONG_RUN);
            if !long.is_empty() {
                reader.walk(&mut |_| ())?; // A damaged list of free pages may name pages that are in use.
            }
            let file = FileWriter::past(reader, path, map_size, long)?;
            Ok(Self { reader, file, tables: BTreeMap::new(), free, leftover })
        };
        begin().map_err(|error: Error| error.of_file(path))
    }

    /// Returns the writer to which new tables are written.
    pub fn file(&mut self) -> &mut FileWriter {
        &mut self.file
    }

    /// Adds a table that was written to the file, or replaces the table of this name.
    pub fn put(&mut self, name: &[u8], table: Table) {
        self.tables.insert(name.to_vec(), table);
    }

    /// Writes the main table and the table of free pages, and commits the snapshot.
    pub fn commit(mut self) -> Result<Summary> {
        common::killpoint("index.written");
        let freed = self.reader.pages_of(self.tables.keys().map(Vec::as_slice))?;
        for run in self.file.leave_free()? {
            self.free.add(run.start, run.end - run.start);
        }
        let old = self.reader.meta;
        let main = self.main(old.main)?;
        let free = self.free(old.free, &freed)?;
        let Self { file, mut leftover, .. } = self;
        let last_page = file.pages() - 1;
        let map_size = old.map_size.max(file.map_size());
        let meta = Meta { map_size, free, main, last_page, txn: old.txn + 1 };
        // Once the meta page is being written, the file may need the new pages, so it is no longer truncated.
        file.switch(&meta, &mut || leftover.length = None)
    }

    fn main(&mut self, old: Table) -> Result<Table> {
        let mut tables: Vec<_> = self.reader.records().collect();
        if tables.len() as u64 != old.entries {
            return Err(Error::corrupt(old.root, "an entry of the main table that is not a table"));
        }
        tables.retain(|(name, _)| !self.tables.contains_key(*name));
        tables.extend(self.tables.iter().map(|(name, table)| (name.as_slice(), *table)));
        let order = old.flags.key_order();
        tables.sort_unstable_by(|left, right| order.compare(left.0, right.0));
        self.file.main_table(old.flags, tables.into_iter())
    }

    /// Writes the table of free pages. For each transaction that freed pages, a record has their count and their
    /// numbers in descending order (`mdb_freelist_save`). The pages of all transactions before the last one are in one
    /// record.
    fn free(&mut self, old: Table, freed: &Runs) -> Result<Table> {
        let last = self.reader.txn();
        let mut tree = TreeWriter::new(Flags::INTEGERKEY, self.reader.layout());
        if !self.free.is_empty() {
            tree.put(&mut self.file, &(last - 1).to_ne_bytes(), &listed(&self.free))?;
        }
        let before = self.reader.free_table();
        let table = before.reader(&self.reader.store);
        let mut rows = table.cursor()?;
        rows.seek(&last.to_ne_bytes())?;
        while let Some((txn, pages)) = rows.next()? {
            tree.put(&mut self.file, txn, pages)?;
        }
        tree.put(&mut self.file, &(last + 1).to_ne_bytes(), &listed(freed))?;
        let table = tree.finish(&mut self.file)?;
        // The record of this table also has the page size and the flags of the environment.
        Ok(Table { pad: old.pad, flags: old.flags, ..table })
    }
}

/// Returns the record of the free pages `pages`.
fn listed(pages: &Runs) -> Vec<u8> {
    let mut list = vec![0; size_of::<u64>()];
    list.extend(pages.descending().flat_map(u64::to_ne_bytes));
    let count = list.len() as u64 / 8 - 1;
    list[..8].copy_from_slice(&count.to_ne_bytes());
    list
}

/// Truncates the file to its old length on drop, unless `length` is `None`. Drop it after the writer.
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
}

impl Drop for Leftover {
    fn drop(&mut self) {
        if let Some(length) = self.length {
            // If this fails, the file is only longer: LMDB never reads these pages.
            let _ = self.file.set_len(length);
        }
    }
}
