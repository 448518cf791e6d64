//! If an entry was read twice, decides which copy is kept: entryUUIDs and DNs must be unique.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::gather::{EncodedInput, TempStorage};
use crate::join::ParentTable;
use crate::live::{SeenEntries, SpooledKey};
use crate::numbering::MISSING;
use crate::{Result, uuid_text};

/// Entries that are left out because a newer copy was read.
#[derive(Debug, Default)]
pub struct Superseded {
    /// Position of the superseded entry -> position of the entry that now has its DN; `None` if no entry has it.
    all: FxHashMap<u32, Option<u32>>,
    /// entryUUIDs that were read under more than one DN.
    renamed: FxHashSet<u128>,
}

impl Superseded {
    /// Finds the superseded entries. If `repeated`, any entry may have come twice, else only those of the second pass.
    pub fn find(gathered: &EncodedInput, joined: &ParentTable, repeated: bool, temp: &TempStorage) -> Result<Self> {
        let Some(live) = &gathered.live else { return Ok(Self::default()) };
        let mut superseded = Self::default();
        let mut doubtful: FxHashSet<u32> = joined.duplicates.iter().flat_map(|(one, first)| [*one, *first]).collect();
        if repeated {
            add_shared_uuids(live, temp, &mut doubtful)?;
        }
        if doubtful.is_empty() && live.doubtful.is_empty() {
            return Ok(superseded);
        }
        let mut copies = Vec::new();
        live.each_key(|entry| {
            let is_doubtful = doubtful.contains(&entry.position) || live.doubtful.contains(&entry.key.uuid);
            copies.extend(is_doubtful.then_some(*entry));
            Ok(())
        })?;
        superseded.judge(&mut copies, |position| live.read_again(position));
        Ok(superseded)
    }

    pub fn contains(&self, position: u32) -> bool {
        self.all.contains_key(&position)
    }

    /// Keeps an entry only if it is the newest entry with its entryUUID and also the newest with its DN. If another
    /// entry took over its DN, the entry no longer exists, even if the other entry was renamed later.
    ///
    /// `again` returns the position at which an entry was read in the second pass. Such an entry is newer than all
    /// entries of the first pass whatever their CSNs: an entry that moves with its parent keeps its CSN.
    fn judge(&mut self, copies: &mut [SpooledKey], again: impl Fn(u32) -> Option<u32>) {
        let age = |copy: &SpooledKey| match again(copy.position) {
            Some(position) => (true, 0, position),
            None => (false, copy.key.csn, copy.position),
        };
        copies.sort_unstable_by_key(|copy| (copy.key.uuid, age(copy)));
        for pair in copies.windows(2) {
            if pair[0].key.uuid == pair[1].key.uuid && pair[0].key.uuid != 0 {
                self.all.insert(pair[0].position, None);
                if pair[0].dn != pair[1].dn {
                    self.renamed.insert(pair[0].key.uuid);
                }
            }
        }
        copies.sort_unstable_by_key(|copy| (copy.dn, age(copy)));
        for group in copies.chunk_by(|left, right| left.dn == right.dn) {
            let Some((newest, older)) = group.split_last() else { continue };
            let successor = (!self.contains(newest.position)).then_some(newest.position);
            for copy in older {
                self.all.insert(copy.position, successor);
            }
        }
    }

    /// Answers the questions for a superseded entry with the position of the entry that now has its DN.
    pub fn leave_out(&self, joined: &mut ParentTable) {
        if self.all.is_empty() {
            return;
        }
        joined.duplicates = self.all.iter().map(|(older, newer)| (*older, newer.unwrap_or(*older))).collect();
        for answer in &mut joined.answers {
            if let Some(newer) = self.all.get(answer) {
                *answer = newer.unwrap_or(MISSING);
            }
        }
    }

    /// Returns the entryUUIDs that were read under more than one DN, ascending.
    pub fn renamed(&self) -> Vec<String> {
        let mut uuids: Vec<u128> = self.renamed.iter().copied().collect();
        uuids.sort_unstable();
        uuids.into_iter().map(uuid_text).collect()
    }

    /// Returns the positions of superseded entries, unordered.
    pub fn positions(&self) -> impl Iterator<Item = u32> + '_ {
        self.all.keys().copied()
    }
}

/// Adds to `positions` the positions of entries that share their entryUUID with other entries.
fn add_shared_uuids(live: &SeenEntries, temp: &TempStorage, positions: &mut FxHashSet<u32>) -> Result<()> {
    let mut tuples = temp.tuples();
    #[allow(clippy::cast_possible_truncation, reason = "the two halves")]
    live.each_key(|entry| {
        let uuid = entry.key.uuid;
        tuples.push([(uuid >> 64) as u64, uuid as u64, u64::from(entry.position)])
    })?;
    let mut previous: Option<[u64; 3]> = None;
    for tuple in tuples.finish()? {
        let tuple = tuple?;
        let same = previous.filter(|previous| previous[..2] == tuple[..2] && tuple[..2] != [0, 0]);
        #[allow(clippy::cast_possible_truncation, reason = "positions have 32 bits")]
        positions.extend(same.into_iter().flat_map(|previous| [previous[2] as u32, tuple[2] as u32]));
        previous = Some(tuple);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoded::EntryVersion;

    fn met(position: u32, dn: u64, uuid: u128, csn: u128) -> SpooledKey {
        SpooledKey { dn: [dn, 0], key: EntryVersion { uuid, csn, newer: false }, position }
    }

    fn judged(mut met: Vec<SpooledKey>, again: Option<u32>) -> Vec<(u32, Option<u32>)> {
        let mut found = Superseded::default();
        found.judge(&mut met, |position| again.filter(|first| position >= *first).map(|_| position));
        let mut all: Vec<_> = found.all.into_iter().collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn the_newest_entry_of_each_dn_and_uuid_stays() {
        for (fact, all, again, expected) in [
            ("the greater CSN stays", vec![met(0, 1, 7, 20), met(1, 1, 8, 10)], None, &[(1, Some(0))][..]),
            ("of equal CSNs, the later stays", vec![met(0, 1, 7, 10), met(1, 1, 8, 10)], None, &[(0, Some(1))]),
            ("the second pass stays", vec![met(0, 1, 7, 20), met(1, 2, 7, 10)], Some(1), &[(0, None)]),
            (
                "an entry that lost its DN is gone even if its successor moved on",
                vec![met(0, 1, 7, 10), met(1, 1, 8, 20), met(2, 2, 8, 30)],
                None,
                &[(0, None), (1, None)],
            ),
            ("entries without UUID are no copies", vec![met(0, 1, 0, 1), met(1, 2, 0, 2)], None, &[]),
        ] {
            assert_eq!(judged(all, again), expected, "{fact}");
        }
    }
}
