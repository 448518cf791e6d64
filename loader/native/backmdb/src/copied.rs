//! Rewrites id2e in the order of the new IDs.
//!
//! Entries keep their order, except that an entry that came after a descendant ("late") moves before the descendant.
//! The values of late entries are sorted, and merged with the others in one pass through the old table: random access
//! would read a block of the file for each entry.

use ldif::Counters;
use lmdbfile::{Cursor, FileWriter, TreeWriter};

use crate::Result;
use crate::gather::{EncodedInput, SortedRecords, TempStorage};
use crate::numbering::{LateParent, Numbering};
use crate::reorder::{FirstPassTable, ROOT, at};

/// Number of entries between two progress reports.
const PACE: u32 = 1 << 16;

/// A record at most this many records ahead is reached by reading on, any other by a search from the root page.
const NEAR: u64 = 64;

/// The entries to copy.
pub struct RewritePlan<'a> {
    written: &'a FirstPassTable,
    numbering: &'a Numbering,
    /// Number of positions in the input.
    positions: u32,
    /// Ascending positions of entries that came after a descendant.
    late: Vec<u32>,
    counters: &'a Counters,
}

impl<'a> RewritePlan<'a> {
    pub fn new(
        written: &'a FirstPassTable,
        numbering: &'a Numbering,
        positions: usize,
        late: &[LateParent],
        counters: &'a Counters,
    ) -> Self {
        let mut late: Vec<u32> = late.iter().map(|parent| parent.position).collect();
        late.sort_unstable();
        let positions = u32::try_from(positions).unwrap_or(u32::MAX);
        Self { written, numbering, positions, late, counters }
    }

    pub fn run(&self, gathered: &mut EncodedInput, temp: &TempStorage) -> Result<()> {
        let mut out = SecondPass { file: &mut gathered.file, tree: &mut gathered.id2e };
        self.root(&mut out)?;
        let mut late_values = self.late_values(temp)?;
        let mut old = FirstPass::new(self.written)?;
        let mut late = self.late.iter().peekable();
        for position in 0..self.positions {
            self.advance(position)?;
            let is_late = late.next_if_eq(&&position).is_some();
            let Some(id) = self.numbering.id(position).filter(|_| !is_late) else { continue };
            out.put_before(id, &mut late_values)?;
            out.put(id, old.value(position)?)?;
        }
        out.put_before(u64::MAX, &mut late_values)
    }

    /// Copies the entry of the empty DN, which keeps its ID.
    fn root(&self, out: &mut SecondPass<'_>) -> Result<()> {
        let mut cursor = self.written.cursor()?;
        match cursor.next()? {
            Some((key, root)) if *key == ROOT => out.put(0, root),
            _ => Ok(()),
        }
    }

    /// Returns the values of late entries, sorted by their new IDs.
    fn late_values(&self, temp: &TempStorage) -> Result<SortedRecords> {
        let (mut sorter, mut old) = (temp.records(), FirstPass::new(self.written)?);
        for (at, &position) in (0..).zip(&self.late) {
            self.advance(at)?;
            if let Some(id) = self.numbering.id(position) {
                sorter.push(u128::from(id), old.value(position)?)?;
            }
        }
        SortedRecords::new(sorter)
    }

    fn advance(&self, entry: u32) -> Result<()> {
        if entry % PACE == 0 {
            self.counters.check()?;
            self.counters.advance(1);
        }
        Ok(())
    }
}

/// The new table.
struct SecondPass<'a> {
    file: &'a mut FileWriter,
    tree: &'a mut TreeWriter,
}

impl SecondPass<'_> {
    fn put(&mut self, id: u64, value: &[u8]) -> Result<()> {
        Ok(self.tree.put(self.file, &id.to_ne_bytes(), value)?)
    }

    /// Puts the late values with IDs below `id`.
    #[allow(clippy::cast_possible_truncation, reason = "the prefix is an ID of 64 bits")]
    fn put_before(&mut self, id: u64, late_values: &mut SortedRecords) -> Result<()> {
        while let Some((own, value)) = late_values.next.as_ref().filter(|(own, _)| *own < u128::from(id)) {
            self.put(*own as u64, value)?;
            late_values.step()?;
        }
        Ok(())
    }
}

/// The old table, read once in order.
struct FirstPass<'w> {
    written: &'w FirstPassTable,
    cursor: Cursor<'w>,
    /// ID of the record that the cursor passed last.
    last: u64,
}

impl<'w> FirstPass<'w> {
    fn new(written: &'w FirstPassTable) -> Result<Self> {
        let mut cursor = written.cursor()?;
        cursor.seek(&1u64.to_ne_bytes())?;
        Ok(Self { written, cursor, last: 0 })
    }

    /// Returns the value of the entry at `position`; positions must ascend.
    fn value(&mut self, position: u32) -> Result<&[u8]> {
        let wanted = self.written.old_id(position);
        if wanted - self.last > NEAR {
            self.cursor.seek(&wanted.to_ne_bytes())?;
            self.last = wanted - 1;
        }
        while self.last + 1 < wanted {
            self.cursor.next()?;
            self.last += 1;
        }
        self.last = wanted;
        at(self.cursor.next()?, wanted)
    }
}
