//! For entries that were read twice, finds the copy that stays: entryUUIDs and DNs must be unique.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::Result;
use crate::gather::{EncodedInput, TempStorage};
use crate::join::ParentTable;
use crate::live::{SeenEntries, SpooledKey};
use crate::numbering::MISSING;

/// Positions of entries that are left out in favour of a newer copy.
#[derive(Debug, Default)]
pub struct Superseded {
    /// Position of the superseded entry -> that of the entry which now has its DN.
    all: FxHashMap<u32, Option<u32>>,
    /// entryUUIDs that were read under more than one DN.
    renamed: FxHashSet<u128>,
}

impl Superseded {
    /// `repeated`: any entry may have come twice, not only those of the second pass.
    pub fn find(gathered: &EncodedInput, joined: &ParentTable, repeated: bool, temp: &TempStorage) -> Result<Self> {
        let Some(live) = &gathered.live else { return Ok(Self::default()) };
        let mut found = Self::default();
        let mut doubtful: FxHashSet<u32> = joined.duplicates.iter().flat_map(|(one, first)| [*one, *first]).collect();
        if repeated {
            same_uuid(live, temp, &mut doubtful)?;
        }
        if doubtful.is_empty() && live.doubtful.is_empty() {
            return Ok(found);
        }
        let mut met = Vec::new();
        live.each_key(|one| {
            let is_doubtful = doubtful.contains(&one.position) || live.doubtful.contains(&one.key.uuid);
            met.extend(is_doubtful.then_some(*one));
            Ok(())
        })?;
        found.judge(&mut met, |position| live.read_again(position));
        Ok(found)
    }

    pub fn contains(&self, position: u32) -> bool {
        self.all.contains_key(&position)
    }

    /// Keeps an entry only if it is the newest with its entryUUID and with its DN: if another entry took over its DN,
    /// it is gone, even if that other entry moved on. An entry that was read `again` (at that position) wins regardless
    /// of its CSN: an entry that moves with its parent keeps its CSN.
    fn judge(&mut self, met: &mut [SpooledKey], again: impl Fn(u32) -> Option<u32>) {
        let age = |one: &SpooledKey| match again(one.position) {
            Some(position) => (true, 0, position),
            None => (false, one.key.csn, one.position),
        };
        met.sort_unstable_by_key(|one| (one.key.uuid, age(one)));
        for pair in met.windows(2) {
            if pair[0].key.uuid == pair[1].key.uuid && pair[0].key.uuid != 0 {
                self.all.insert(pair[0].position, None);
                if pair[0].dn != pair[1].dn {
                    self.renamed.insert(pair[0].key.uuid);
                }
            }
        }
        met.sort_unstable_by_key(|one| (one.dn, age(one)));
        for group in met.chunk_by(|left, right| left.dn == right.dn) {
            let Some((newest, older)) = group.split_last() else { continue };
            let stays = (!self.contains(newest.position)).then_some(newest.position);
            for one in older {
                self.all.insert(one.position, stays);
            }
        }
    }

    /// Redirects questions for a superseded entry to the entry that now has its DN.
    pub fn leave_out(&self, joined: &mut ParentTable) {
        if self.all.is_empty() {
            return;
        }
        joined.duplicates = self.all.iter().map(|(one, by)| (*one, by.unwrap_or(*one))).collect();
        for answer in &mut joined.answers {
            if let Some(by) = self.all.get(answer) {
                *answer = by.unwrap_or(MISSING);
            }
        }
    }

    /// Returns the entryUUIDs that were read under more than one DN, ascending.
    pub fn renamed(&self) -> Vec<String> {
        let mut found: Vec<u128> = self.renamed.iter().copied().collect();
        found.sort_unstable();
        let spelled = |uuid: u128| values::uuid::spelled(uuid);
        found.into_iter().map(|uuid| String::from_utf8_lossy(&spelled(uuid)).into_owned()).collect()
    }

    /// Returns the positions of superseded entries, unordered.
    pub fn positions(&self) -> impl Iterator<Item = u32> + '_ {
        self.all.keys().copied()
    }

    pub fn count(&self) -> u64 {
        self.all.len() as u64
    }
}

/// Adds the positions of entries that share their entryUUID with others.
fn same_uuid(live: &SeenEntries, temp: &TempStorage, found: &mut FxHashSet<u32>) -> Result<()> {
    let mut tuples = temp.tuples();
    #[allow(clippy::cast_possible_truncation, reason = "the two halves")]
    live.each_key(|met| {
        let uuid = met.key.uuid;
        tuples.push([(uuid >> 64) as u64, uuid as u64, u64::from(met.position)])
    })?;
    let mut before: Option<[u64; 3]> = None;
    for tuple in tuples.finish()? {
        let tuple = tuple?;
        let same = before.filter(|one| one[..2] == tuple[..2] && tuple[..2] != [0, 0]);
        #[allow(clippy::cast_possible_truncation, reason = "positions have 32 bits")]
        found.extend(same.into_iter().flat_map(|one| [one[2] as u32, tuple[2] as u32]));
        before = Some(tuple);
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
    fn the_greater_csn_stays() {
        assert_eq!(judged(vec![met(0, 1, 7, 20), met(1, 1, 8, 10)], None), [(1, Some(0))]);
        assert_eq!(judged(vec![met(0, 1, 7, 10), met(1, 1, 8, 10)], None), [(0, Some(1))]);
    }

    #[test]
    fn an_entry_of_the_second_pass_stays_regardless_of_its_csn() {
        assert_eq!(judged(vec![met(0, 1, 7, 20), met(1, 2, 7, 10)], Some(1)), [(0, None)]);
    }

    #[test]
    fn an_entry_that_lost_its_dn_is_gone_even_if_its_successor_moved_on() {
        let all = vec![met(0, 1, 7, 10), met(1, 1, 8, 20), met(2, 2, 8, 30)];
        assert_eq!(judged(all, None), [(0, None), (1, None)]);
    }

    #[test]
    fn entries_without_uuid_are_not_copies_of_each_other() {
        assert_eq!(judged(vec![met(0, 1, 0, 1), met(1, 2, 0, 2)], None), []);
    }
}
