//! The first pass: which entries stay, and which of them others stand under.
//!
//! Memory: 2 bytes an entry, 8 to 16 more while duplicates are looked for, and hashes of the entries that may
//! be one, of the parents, and nothing else: rows are read again instead. 30 million entries: 60 MB, 0.4 GB at the peak.

use common::{Counters, Result};
use rustc_hash::FxHashSet;

use super::Task;
use super::rows::EntryRecords;
use crate::fingerprint::{Checksum, hash};
use crate::name::ParsedDn;
use crate::row::EntryRecord;

/// What becomes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    Leaf,
    /// Others stand under it, or it is the root.
    Interior,
    /// Left out: a newer one has its DN, or is the same entry once more.
    Overtaken,
    /// Left out: a newer one has its entryUUID under another DN.
    Renamed,
    /// Left out: an ancestor is nowhere.
    Dropped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowDecision {
    pub(super) fate: Decision,
    /// The first to name a parent that is nowhere.
    pub(super) orphan: bool,
}

impl RowDecision {
    const LEAF: Self = Self { fate: Decision::Leaf, orphan: false };

    fn is_kept(self) -> bool {
        matches!(self.fate, Decision::Leaf | Decision::Interior)
    }

    /// Stays where it is, and there is nothing to say about it.
    pub(super) fn is_plain(self) -> bool {
        self == Self::LEAF
    }
}

/// The rows of one file.
#[derive(Debug, Clone, Copy, Default)]
struct FileRows {
    rows: usize,
    /// What they add to the checksum of the tree.
    checksum: Checksum,
}

/// The decisions, file by file.
#[derive(Debug)]
pub(super) struct RowDecisions {
    all: Vec<RowDecision>,
    lots: std::vec::IntoIter<FileRows>,
    at: usize,
}

impl RowDecisions {
    /// Those of the next file, and what its records add to the checksum.
    pub(super) fn next_file(&mut self) -> (&[RowDecision], Checksum) {
        let (from, lot) = (self.at, self.lots.next().unwrap_or_default());
        self.at += lot.rows;
        (&self.all[from..self.at], lot.checksum)
    }
}

/// What of a row decides which of two is newer.
#[derive(Debug, Clone, Copy)]
struct Key {
    at: usize,
    dn: u128,
    uuid: u128,
    csn: u128,
}

impl Key {
    fn of(at: usize, row: &EntryRecord) -> Self {
        Self { at, dn: row.dn, uuid: row.uuid, csn: row.csn }
    }
}

pub(super) fn verdicts(
    task: &Task<'_>,
    root: &ParsedDn,
    counters: &Counters,
) -> Result<RowDecisions> {
    let rows = EntryRecords::of(task.paths.iter().chain(task.again), counters)?;
    let mut lots: Vec<_> =
        rows.counts().map(|rows| FileRows { rows, ..FileRows::default() }).collect();
    let again = lots[..task.paths.len()].iter().map(|lot| lot.rows).sum();
    let total = lots.iter().map(|lot| lot.rows).sum();
    let verdicts = vec![RowDecision::LEAF; total];
    let mut plan = Plan { rows, counters, verdicts, name_orphans: task.name_orphans };
    let ([uuids, dns], parents) = plan.look(&mut lots)?;
    let mut doubtful = Vec::new();
    plan.mark_parents(root, parents, |at, row| {
        if uuids.again(row.uuid) || dns.again(row.dn) {
            doubtful.push(Key::of(at, row));
        }
    })?;
    // Where nothing was met twice, which is nearly always, that was all.
    if plan.drop_older(&mut doubtful, again) || task.drop_orphans {
        while task.drop_orphans && plan.drop_orphans(root)? > 0 {}
        let parents = plan.parents()?;
        plan.mark_parents(root, parents, |_, _| ())?;
    }
    Ok(RowDecisions { all: plan.verdicts, lots: lots.into_iter(), at: 0 })
}

struct Plan<'a> {
    rows: EntryRecords,
    counters: &'a Counters,
    verdicts: Vec<RowDecision>,
    name_orphans: bool,
}

impl Plan<'_> {
    /// Looks at every row: which keys may be there twice, and all parents. Adds up the checksums.
    fn look(&self, lots: &mut [FileRows]) -> Result<(DuplicateCandidates, Parents)> {
        let [mut uuids, mut dns] = [(); 2].map(|()| PossibleDuplicates::new(self.verdicts.len()));
        let mut parents = Parents::default();
        self.rows.each(self.counters, true, |file, _, row| {
            lots[file].checksum.add(row.print);
            uuids.see(row.uuid);
            dns.see(row.dn);
            parents.see(row);
        })?;
        Ok(([uuids, dns], parents))
    }

    /// Of rows with the same key only the newest stays; whether any does not. An entry must win both by entryUUID and
    /// by DN: one that was overtaken at its DN is gone from there, even when its successor moved on. What was read
    /// `again`, from that row on, is the truth, whatever its CSN: an entry that moved with its parent keeps its own.
    fn drop_older(&mut self, keys: &mut [Key], again: usize) -> bool {
        let mut any = false;
        let age = |key: &Key| if key.at < again { (key.csn, key.at) } else { (u128::MAX, key.at) };
        for of in [|key: &Key| key.dn, |key: &Key| key.uuid] {
            keys.sort_unstable_by_key(|key| (of(key), age(key)));
            for pair in keys.windows(2) {
                if of(&pair[0]) == of(&pair[1]) && of(&pair[0]) != 0 {
                    let renamed = pair[0].dn != pair[1].dn;
                    let fate = if renamed { Decision::Renamed } else { Decision::Overtaken };
                    self.verdicts[pair[0].at].fate = fate;
                    any = true;
                }
            }
        }
        any
    }

    /// Decides of the rows that stay which are interior, and which name a parent that is nowhere; shows them to `see`.
    fn mark_parents(
        &mut self,
        root: &ParsedDn,
        Parents { mut all, .. }: Parents,
        mut see: impl FnMut(usize, &EntryRecord),
    ) -> Result<()> {
        let root_hash = hash(root.key());
        self.each_kept(|verdict, at, row| {
            let interior = all.remove(&row.dn) || row.dn == root_hash;
            verdict.fate = if interior { Decision::Interior } else { Decision::Leaf };
            verdict.orphan = false;
            see(at, row);
        })?;
        forget_above(root, &mut all);
        if all.is_empty() || !self.name_orphans {
            return Ok(());
        }
        self.each_kept(|verdict, _, row| verdict.orphan = all.remove(&row.parent))
    }

    /// Drops the entries whose parent is nowhere; their children are next. Returns how many.
    fn drop_orphans(&mut self, root: &ParsedDn) -> Result<usize> {
        let Parents { all: mut missing, .. } = self.parents()?;
        self.each_kept(|_, _, row| {
            missing.remove(&row.dn);
        })?;
        forget_above(root, &mut missing);
        let mut dropped = 0;
        self.each_kept(|verdict, _, row| {
            if missing.contains(&row.parent) {
                verdict.fate = Decision::Dropped;
                dropped += 1;
            }
        })?;
        Ok(dropped)
    }

    /// Of the rows that stay.
    fn parents(&mut self) -> Result<Parents> {
        let mut parents = Parents::default();
        self.each_kept(|_, _, row| parents.see(row))?;
        Ok(parents)
    }

    fn each_kept(
        &mut self,
        mut see: impl FnMut(&mut RowDecision, usize, &EntryRecord),
    ) -> Result<()> {
        let verdicts = &mut self.verdicts;
        self.rows.each(self.counters, false, |_, at, row| {
            if verdicts[at].is_kept() {
                see(&mut verdicts[at], at, row);
            }
        })
    }
}

/// Of entryUUIDs, and of DNs.
type DuplicateCandidates = [PossibleDuplicates; 2];

/// Hashes of the DNs that rows name as their parents'.
#[derive(Default)]
struct Parents {
    all: FxHashSet<u128>,
    last: Option<u128>,
}

impl Parents {
    fn see(&mut self, row: &EntryRecord) {
        // Children of one parent often stand together.
        if self.last.replace(row.parent) != Some(row.parent) {
            self.all.insert(row.parent);
        }
    }
}

/// What stands above the root is nobody's business here, nor is the parent of a DN of one RDN.
fn forget_above(root: &ParsedDn, missing: &mut FxHashSet<u128>) {
    missing.remove(&hash(root.parent()));
    missing.remove(&hash(b""));
}

/// Which hashes may have been seen twice: all that were, and few besides. So hardly any are left to be
/// sorted. Memory: 4 to 8 bytes a hash.
struct PossibleDuplicates {
    /// For each value of the upper bits of a hash: seen, and seen again.
    bits: Vec<[u64; 2]>,
    shift: u32,
}

impl PossibleDuplicates {
    fn new(hashes: usize) -> Self {
        let words = (hashes / 4).next_power_of_two();
        Self { bits: vec![[0; 2]; words], shift: u64::BITS - 6 - words.ilog2() }
    }

    #[inline]
    fn see(&mut self, hash: u128) {
        let (word, bit) = self.place(hash);
        let [seen, again] = &mut self.bits[word];
        *again |= *seen & bit;
        *seen |= bit;
    }

    #[inline]
    fn again(&self, hash: u128) -> bool {
        let (word, bit) = self.place(hash);
        self.bits[word][1] & bit != 0
    }

    #[allow(clippy::cast_possible_truncation, reason = "it is below the number of words")]
    fn place(&self, hash: u128) -> (usize, u64) {
        let place = upper(hash) >> self.shift;
        ((place >> 6) as usize, 1 << (place & 63))
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the upper half fits")]
fn upper(number: u128) -> u64 {
    (number >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_met_twice_is_among_few() {
        let rng = &mut fastrand::Rng::with_seed(1);
        for size in [1, 3, 4, 1000, 100_000] {
            let hashes: Vec<u128> = (0..size).map(|_| rng.u128(..)).collect();
            let twice = &hashes[..size / 10];
            let mut met = PossibleDuplicates::new(size + twice.len());
            hashes.iter().chain(twice).for_each(|&hash| met.see(hash));
            assert!(twice.iter().all(|&hash| met.again(hash)));
            let others = hashes[size / 10..].iter().filter(|&&hash| met.again(hash)).count();
            // Of a handful any number may meet by chance.
            assert!(size < 1000 || others <= size / 4, "{others} of {size}");
        }
    }
}
