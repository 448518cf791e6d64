//! A range of IDs, entry by entry.

use common::Counters;

use crate::Result;
use crate::descriptions::Descriptions;
use crate::entry::{Decoder, Entry};
use crate::nodes::Nodes;
use crate::parents::{ParentDn, Parents};
use crate::ranges::{Range, id};
use crate::tables::Tables;

/// Entries after which a worker tells what it did, and looks whether to go on.
const STEP: u64 = 256;

/// What was met.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WalkCounts {
    /// Records of id2e.
    pub(crate) records: u64,
    /// Entries that were wanted.
    pub(crate) entries: u64,
    /// Parents that were never added, which have a record without content.
    pub(crate) holes: u64,
}

impl WalkCounts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.records += other.records;
        self.entries += other.entries;
        self.holes += other.holes;
    }
}

/// Goes through ranges; keeps what it learned of names.
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
    /// `base`: the ID of the wanted base, 0 for all.
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

    /// Shows every wanted entry of the range. `see` tells the bytes that count in `counters`, `go_on` is asked now
    /// and then.
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
