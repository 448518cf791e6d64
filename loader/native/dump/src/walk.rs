//! Reads the entries of a range of IDs.

use common::Counters;

use crate::Result;
use crate::descriptions::Descriptions;
use crate::entry::{Decoder, Entry};
use crate::nodes::Nodes;
use crate::parents::{ParentDn, Parents};
use crate::ranges::{Range, id};
use crate::tables::Tables;

/// After this number of records, a worker updates the counters and checks whether it has been told to stop.
const STEP: u64 = 256;

/// The numbers of records and entries read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WalkCounts {
    /// Records of id2e.
    pub(crate) records: u64,
    /// Entries at or below the base.
    pub(crate) entries: u64,
    /// Records without content: entries that have children but were never added themselves.
    pub(crate) holes: u64,
}

impl WalkCounts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.records += other.records;
        self.entries += other.entries;
        self.holes += other.holes;
    }
}

/// Reads ranges, and keeps its cache of parents from one range to the next.
#[derive(Debug)]
pub(crate) struct Walker<'w> {
    tables: Tables<'w>,
    decoder: Decoder<'w>,
    nodes: Nodes<'w>,
    parents: Parents<'w>,
    place: ParentDn,
    pub(crate) met: WalkCounts,
}

impl<'w> Walker<'w> {
    /// `base` is the ID of the base; 0 selects all entries.
    pub(crate) fn new(
        tables: &Tables<'w>,
        descriptions: &'w Descriptions,
        base: u64,
    ) -> Result<Self> {
        Ok(Self {
            tables: *tables,
            decoder: Decoder { descriptions, id2v: tables.id2v },
            nodes: Nodes::new(&tables.dn2i)?,
            parents: Parents::new(&tables.dn2i, base)?,
            place: ParentDn::default(),
            met: WalkCounts::default(),
        })
    }

    /// Calls `see` for every entry of the range that is at or below the base. `see` returns the number of bytes to add
    /// to `counters`. An error of `go_on`, which is called at intervals, ends the walk.
    pub(crate) fn range(
        &mut self,
        range: Range,
        counters: &Counters,
        mut go_on: impl FnMut() -> Result<()>,
        mut see: impl FnMut(&Entry<'_>) -> Result<u64>,
    ) -> Result<()> {
        let mut cursor = self.tables.id2e.cursor()?;
        if let Some(from) = range.0 {
            cursor.seek(&from.to_ne_bytes())?;
        }
        let (mut told, mut bytes) = (self.met.entries, 0);
        while let Some((key, value)) = cursor.next()? {
            let id = id(key)?;
            if range.1.is_some_and(|to| id >= to) {
                break;
            }
            bytes += self.record(id, value, &mut see)?;
            if self.met.records % STEP == 0 {
                go_on()?;
                counters.add(self.met.entries - told, bytes);
                (told, bytes) = (self.met.entries, 0);
            }
        }
        counters.add(self.met.entries - told, bytes);
        Ok(())
    }

    fn record(
        &mut self,
        id: u64,
        value: &[u8],
        see: &mut impl FnMut(&Entry<'_>) -> Result<u64>,
    ) -> Result<u64> {
        self.met.records += 1;
        if value.is_empty() {
            self.met.holes += 1;
            return Ok(0);
        }
        let node = self.nodes.find(id)?;
        let parent = if id == 0 { 0 } else { node.id };
        let base = self.parents.base();
        self.place.set(id, node.pretty, parent, self.parents.get(parent)?, base);
        if !self.place.inside {
            return Ok(0);
        }
        self.met.entries += 1;
        see(&self.decoder.entry(id, value, &self.place))
    }
}
