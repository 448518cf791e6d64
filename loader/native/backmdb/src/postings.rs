//! Writes an index table from its sorted postings: lists of entry IDs, or ranges if they are long.

use codec::{idl, tables};
use extsort::{Sorted, Visitor};
use lmdbfile::{FileWriter, Table, TreeWriter};

use crate::numbering::Numbering;
use crate::{Error, Result};

/// Receives the rows of an index table, key by key.
pub trait IndexWriter {
    /// `ids`: ascending, or 0 and both ends of a range.
    fn row(&mut self, key: &[u8], ids: &[u64]) -> Result<()>;
}

/// Writes the table of index `index`.
pub fn write(
    file: &mut FileWriter,
    sorted: &Sorted,
    index: usize,
    numbering: &Numbering,
    exponent: u32,
) -> Result<Table> {
    let tree = TreeWriter::new(tables::INDEX, file.layout());
    let mut rows = TableWriter { file, tree };
    each_row(sorted, index, numbering, exponent, &mut rows)?;
    Ok(rows.tree.finish(rows.file)?)
}

struct TableWriter<'a> {
    file: &'a mut FileWriter,
    tree: TreeWriter,
}

impl IndexWriter for TableWriter<'_> {
    fn row(&mut self, key: &[u8], ids: &[u64]) -> Result<()> {
        if let [id] = ids {
            return Ok(self.tree.put(self.file, key, &id.to_ne_bytes())?);
        }
        self.tree.begin(key)?;
        self.tree.fixed(self.file, ids)?;
        Ok(self.tree.end(self.file)?)
    }
}

/// Passes the rows of index `index` to `rows`.
pub fn each_row(
    sorted: &Sorted,
    index: usize,
    numbering: &Numbering,
    exponent: u32,
    rows: &mut impl IndexWriter,
) -> Result<()> {
    let ids = idl::Writer::new(exponent);
    sorted.visit(index, &mut PostingsVisitor { rows, numbering, key: (0, 0), ids, last: None })?;
    Ok(())
}

struct PostingsVisitor<'a, R> {
    rows: &'a mut R,
    numbering: &'a Numbering,
    /// The key's bytes, big-endian and left-aligned, and their number.
    key: (u64, u8),
    ids: idl::Writer,
    last: Option<u32>,
}

impl<R: IndexWriter> Visitor for PostingsVisitor<'_, R> {
    type Error = Error;

    fn key(&mut self, bits: u64, length: u8) -> Result<()> {
        self.ids.clear();
        (self.key, self.last) = ((bits, length), None);
        Ok(())
    }

    fn positions(&mut self, positions: &[u32]) -> Result<()> {
        let (mut last, first) = (self.last, positions.first().copied());
        let is_new = last.is_none() || last < first;
        // Testing all pairs lets the compiler use vector instructions.
        let ascend = || positions.windows(2).filter(|pair| pair[0] >= pair[1]).count() == 0;
        if self.numbering.is_plain() && is_new && ascend() {
            self.ids.add_all(positions.iter().map(|position| u64::from(*position) + 1));
            self.last = positions.last().copied().or(last);
            return Ok(());
        }
        for &position in positions {
            if let Some(id) = self.numbering.id(position) {
                if last == Some(position) {
                    self.ids.again();
                } else {
                    self.ids.add(id);
                }
                last = Some(position);
            }
        }
        self.last = last;
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        // All entries with this key were dropped.
        if self.ids.is_empty() {
            return Ok(());
        }
        if !self.numbering.is_plain() {
            self.ids.sort();
        }
        let key = &self.key.0.to_be_bytes()[..usize::from(self.key.1)];
        self.rows.row(key, self.ids.row())
    }
}
