//! Entries with a lower ID than their parent, as after a rename (modrdn) to a newer parent, and all entries below them.

use std::path::Path;
use std::sync::Mutex;

use common::{Counters, lock};
use extsort::RecordSorter;

use crate::Result;
use crate::parents::ParentDn as Standing;
use crate::shard::{Finished, Shard, ShardTarget};

/// The memory limit in bytes; what exceeds it goes to an unlinked temporary file.
const MEMORY: usize = 32 << 20;
/// The size of the LDIF of one file before compression, in bytes.
const PIECE: u64 = 64 << 20;

/// They are held back until all other entries are written, and then sorted by depth, so that parents come first.
#[derive(Debug)]
pub(crate) struct HeldBackEntries(Mutex<HeldBack>);

#[derive(Debug)]
struct HeldBack {
    /// `None` after [`HeldBackEntries::each`].
    sorter: Option<RecordSorter>,
    count: u64,
}

impl HeldBackEntries {
    /// `scratch` is the directory of the temporary file.
    pub(crate) fn new(scratch: &Path, counters: &Counters) -> Self {
        let sorter = RecordSorter::new(MEMORY, 1, scratch, counters.flag());
        Self(Mutex::new(HeldBack { sorter: Some(sorter), count: 0 }))
    }

    /// `text` is the entry as LDIF, `print` is its fingerprint.
    pub(crate) fn push(&self, id: u64, place: &Standing, print: u128, text: &[u8]) -> Result<()> {
        let kept = [&print.to_le_bytes(), text].concat();
        let mut held = lock(&self.0);
        held.count += 1;
        let prefix = u128::from(place.depth) << 64 | u128::from(id);
        held.sorter.as_mut().map_or(Ok(()), |sorter| sorter.push(prefix, &kept))
    }

    /// Writes the entries to files numbered from `number` on, and returns the number of entries and the files.
    pub(crate) fn write(
        &self,
        place: &ShardTarget,
        mut number: usize,
    ) -> Result<(u64, Vec<Finished>)> {
        let mut shard = Shard::new(&place.directory, place.name(number));
        let mut files = Vec::new();
        let count = self.each(|print, text| {
            shard.tally.add(print);
            shard.text.extend_from_slice(text);
            shard.written()?;
            if shard.bytes >= PIECE {
                number += 1;
                let next = Shard::new(&place.directory, place.name(number));
                files.extend(std::mem::replace(&mut shard, next).finish()?);
            }
            Ok(())
        })?;
        files.extend(shard.finish()?);
        Ok((count, files))
    }

    /// Calls `see` with the fingerprint and the LDIF of each entry, parents first; returns the number of entries. A
    /// second call finds none.
    pub(crate) fn each(&self, mut see: impl FnMut(u128, &[u8]) -> Result<()>) -> Result<u64> {
        let mut held = lock(&self.0);
        let Some(sorter) = held.sorter.take() else { return Ok(0) };
        let mut records = sorter.finish()?;
        while let Some((_, kept)) = records.next()? {
            if let Some((print, text)) = kept.split_first_chunk() {
                see(u128::from_le_bytes(*print), text)?;
            }
        }
        Ok(held.count)
    }
}
