//! Entries that come before one above them in the order of IDs, as after a rename to below a newer one.

use std::path::Path;
use std::sync::Mutex;

use common::{Counters, lock};
use extsort::RecordSorter;

use crate::Result;
use crate::parents::ParentDn as Standing;
use crate::shard::{Finished, Shard, ShardTarget};

/// Bytes of memory that they take, the rest goes to a nameless file.
const MEMORY: usize = 32 << 20;
/// LDIF of one file, before compression.
const PIECE: u64 = 64 << 20;

/// Held back until all others are written; then they come in the order of their depth, so that parents are first.
#[derive(Debug)]
pub(crate) struct HeldBackEntries(Mutex<HeldBack>);

#[derive(Debug)]
struct HeldBack {
    /// `None` once they were taken.
    sorter: Option<RecordSorter>,
    count: u64,
}

impl HeldBackEntries {
    /// `scratch`: the directory of the nameless file.
    pub(crate) fn new(scratch: &Path, counters: &Counters) -> Self {
        let sorter = RecordSorter::new(MEMORY, 1, scratch, counters.flag());
        Self(Mutex::new(HeldBack { sorter: Some(sorter), count: 0 }))
    }

    /// `text`: of the entry in LDIF, `print`: what it adds to the checksum.
    pub(crate) fn push(&self, id: u64, place: &Standing, print: u128, text: &[u8]) -> Result<()> {
        let kept = [&print.to_le_bytes(), text].concat();
        let mut held = lock(&self.0);
        held.count += 1;
        let prefix = u128::from(place.depth) << 64 | u128::from(id);
        held.sorter.as_mut().map_or(Ok(()), |sorter| sorter.push(prefix, &kept))
    }

    /// Writes them to files whose numbers begin at `number`: how many they were, and the files.
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

    /// Shows what each adds to the checksum and its LDIF, parents first: how many they were. None are left.
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
