//! Rewrites id2e in the order of the new IDs.
//!
//! Entries keep their relative order, except that those which came after a descendant move before it. These are sorted
//! and merged with the others in one pass through the first table: random access would read a block of the file for
//! each entry.

use std::iter::Peekable;
use std::slice;

use extsort::Records;
use ldif::Counters;
use lmdbfile::{Cursor, FileWriter, TreeWriter};

use crate::Result;
use crate::gather::{EncodedInput, TempStorage};
use crate::numbering::{LateParent, Numbering};
use crate::reorder::{FirstPassTable, ROOT, at, sorter};

/// Entries between two progress reports.
const PACE: u32 = 1 << 16;

/// Records that are skipped by reading on rather than by a search from the root.
const NEAR: u64 = 64;

/// The entries to copy. `positions`: of the input. `late`: entries that came after a descendant, ascending.
pub struct RewritePlan<'a> {
    written: &'a FirstPassTable,
    numbering: &'a Numbering,
    positions: u32,
    late: Vec<u32>,
    counters: &'a Counters,
}

impl<'a> RewritePlan<'a> {
    pub fn new(
        written: &'a FirstPassTable,
        numbering: &'a Numbering,
        positions: usize,
        holes: &[LateParent],
        counters: &'a Counters,
    ) -> Self {
        let mut late: Vec<u32> = holes.iter().map(|hole| hole.position).collect();
        late.sort_unstable();
        let positions = u32::try_from(positions).unwrap_or(u32::MAX);
        Self { written, numbering, positions, late, counters }
    }

    pub fn run(&self, gathered: &mut EncodedInput, temp: &TempStorage) -> Result<()> {
        let mut out = SecondPass { file: &mut gathered.file, tree: &mut gathered.id2e };
        self.root(&mut out)?;
        let mut late = LateValues::sorted(self, temp)?;
        let mut old = FirstPass::new(self.written)?;
        let mut elsewhere = self.late.iter().peekable();
        for position in 0..self.positions {
            self.live(position)?;
            let Some(id) = self.here(position, &mut elsewhere) else { continue };
            late.put_before(id, &mut out)?;
            out.put(id, old.value(position)?)?;
        }
        late.put_before(u64::MAX, &mut out)
    }

    /// Copies the entry of the empty DN, which keeps its ID.
    fn root(&self, out: &mut SecondPass<'_>) -> Result<()> {
        let mut cursor = self.written.cursor()?;
        match cursor.next()? {
            Some((key, root)) if *key == ROOT => out.put(0, root),
            _ => Ok(()),
        }
    }

    /// Returns the ID of the entry at `position`; `None` if there is none, or a late one.
    fn here(&self, position: u32, late: &mut Peekable<slice::Iter<'_, u32>>) -> Option<u64> {
        let is_late = late.next_if_eq(&&position).is_some();
        self.numbering.id(position).filter(|_| !is_late)
    }

    fn live(&self, position: u32) -> Result<()> {
        if position % PACE == 0 {
            self.counters.check()?;
            self.counters.advance(1);
        }
        Ok(())
    }
}

/// The table being written.
struct SecondPass<'a> {
    file: &'a mut FileWriter,
    tree: &'a mut TreeWriter,
}

impl SecondPass<'_> {
    fn put(&mut self, id: u64, value: &[u8]) -> Result<()> {
        Ok(self.tree.put(self.file, &id.to_ne_bytes(), value)?)
    }
}

/// Values of late entries, in the order of their new IDs; the next one is read ahead.
struct LateValues {
    records: Records,
    next: Option<(u64, Vec<u8>)>,
}

impl LateValues {
    fn sorted(copy: &RewritePlan<'_>, temp: &TempStorage) -> Result<Self> {
        let (mut sorter, mut old) = (sorter(temp), FirstPass::new(copy.written)?);
        for (at, &position) in (0..).zip(&copy.late) {
            copy.live(at)?;
            if let Some(id) = copy.numbering.id(position) {
                sorter.push(u128::from(id), old.value(position)?)?;
            }
        }
        let mut late = Self { records: sorter.finish()?, next: None };
        late.step()?;
        Ok(late)
    }

    #[allow(clippy::cast_possible_truncation, reason = "an ID of 64 bits was put there")]
    fn step(&mut self) -> Result<()> {
        let mut kept = self.next.take().map(|(_, value)| value).unwrap_or_default();
        if let Some((id, value)) = self.records.next()? {
            kept.clear();
            kept.extend_from_slice(value);
            self.next = Some((id as u64, kept));
        }
        Ok(())
    }

    fn put_before(&mut self, id: u64, out: &mut SecondPass<'_>) -> Result<()> {
        while let Some((own, value)) = self.next.as_ref().filter(|(own, _)| *own < id) {
            out.put(*own, value)?;
            self.step()?;
        }
        Ok(())
    }
}

/// The first table, read once in order.
struct FirstPass<'w> {
    written: &'w FirstPassTable,
    cursor: Cursor<'w>,
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
