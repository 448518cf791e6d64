//! Writes an index table from its sorted postings: a list of entry IDs for each key, or a range if the list is too
//! long.

use codec::{idl, tables};
use extsort::{Sorted, Visitor};
use lmdbfile::{FileWriter, Table, TreeWriter};

use crate::numbering::Numbering;
use crate::{Error, Result};

/// Writes the table of index `index`. `exponent`: slapd's `idlexp`.
pub fn write(
    file: &mut FileWriter,
    sorted: &Sorted,
    index: usize,
    numbering: &Numbering,
    exponent: u32,
) -> Result<Table> {
    let (tree, ids) = (TreeWriter::new(tables::INDEX, file.layout()), idl::Writer::new(exponent));
    let mut writer = TableWriter { file, tree, numbering, key: (0, 0), ids, last: None };
    sorted.visit(index, &mut writer)?;
    Ok(writer.tree.finish(writer.file)?)
}

struct TableWriter<'a> {
    file: &'a mut FileWriter,
    tree: TreeWriter,
    numbering: &'a Numbering,
    /// The key's bytes, big-endian and left-aligned, and the number of bytes.
    key: (u64, u8),
    ids: idl::Writer,
    last: Option<u32>,
}

impl Visitor for TableWriter<'_> {
    type Error = Error;

    fn key(&mut self, bits: u64, length: u8) -> Result<()> {
        self.ids.clear();
        (self.key, self.last) = ((bits, length), None);
        Ok(())
    }

    fn positions(&mut self, positions: &[u32]) -> Result<()> {
        let (mut last, first) = (self.last, positions.first().copied());
        let is_new = last.is_none() || last < first;
        // Counting all pairs, without stopping early, lets the compiler use vector instructions.
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
        if let [id] = self.ids.row() {
            return Ok(self.tree.put(self.file, key, &id.to_ne_bytes())?);
        }
        self.tree.begin(key)?;
        self.tree.fixed(self.file, self.ids.row())?;
        Ok(self.tree.end(self.file)?)
    }
}
