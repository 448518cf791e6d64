//! The first pass over an export: decides which entries are kept, and which of them have children.
//!
//! Memory: 2 bytes per entry, 8 to 16 more while duplicates are searched, and hashes of the parents and of possible
//! duplicates. Rows are read repeatedly instead of kept. 30 million entries take 60 MB, and 0.4 GB at the peak.

use common::{Counters, Result};
use rustc_hash::FxHashSet;

use super::Task;
use super::rows::EntryRecords;
use crate::fingerprint::{Checksum, hash};
use crate::name::ParsedDn;
use crate::row::EntryRecord;

/// The decision on one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    Leaf,
    /// The entry has children, or it is the root.
    Interior,
    /// Omitted: a newer entry has the same DN, or the same entry occurs again.
    Overtaken,
    /// Omitted: a newer entry has the same entryUUID under another DN.
    Renamed,
    /// Omitted: an ancestor is missing.
    Dropped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RowDecision {
    pub(super) fate: Decision,
    /// Whether the entry is the first that refers to a missing parent.
    pub(super) orphan: bool,
}

impl RowDecision {
    const LEAF: Self = Self { fate: Decision::Leaf, orphan: false };

    fn is_kept(self) -> bool {
        matches!(self.fate, Decision::Leaf | Decision::Interior)
    }

    /// Whether the entry stays where it is and needs no report.
    pub(super) fn is_plain(self) -> bool {
        self == Self::LEAF
    }
}

/// The rows of one file.
#[derive(Debug, Clone, Copy, Default)]
struct FileRows {
    rows: usize,
    /// Contribution of the rows to the checksum of the tree.
    checksum: Checksum,
}

/// The decisions on all entries, in the order of files and rows.
pub(super) struct RowDecisions {
    all: Vec<RowDecision>,
    lots: std::vec::IntoIter<FileRows>,
    at: usize,
}

impl RowDecisions {
    /// Returns the decisions for the next file, and the contribution of its records to the checksum.
    pub(super) fn next_file(&mut self) -> (&[RowDecision], Checksum) {
        let (from, lot) = (self.at, self.lots.next().unwrap_or_default());
        self.at += lot.rows;
        (&self.all[from..self.at], lot.checksum)
    }
}

/// The parts of a row that decide which of two entries is newer.
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

pub(super) fn verdicts(task: &Task, root: &ParsedDn, counters: &Counters) -> Result<RowDecisions> {
    let rows = EntryRecords::of(task.paths.iter().chain(&task.again), counters)?;
    let mut lots: Vec<_> = rows.counts().map(|rows| FileRows { rows, ..FileRows::default() }).collect();
    let again = lots[..task.paths.len()].iter().map(|lot| lot.rows).sum();
    let total = lots.iter().map(|lot| lot.rows).sum();
    let verdicts = vec![RowDecision::LEAF; total];
    let mut plan = Plan { rows, counters, verdicts, name_orphans: task.name_orphans };
    let ([uuids, dns], parents) = plan.scan_rows(&mut lots)?;
    let mut doubtful = Vec::new();
    plan.mark_parents(root, parents, |at, row| {
        if uuids.again(row.uuid) || dns.again(row.dn) {
            doubtful.push(Key::of(at, row));
        }
    })?;
    // Duplicates are rare. Without any, the first result of `mark_parents` is final.
    if plan.drop_older(&mut doubtful, again) || task.drop_orphans {
        while task.drop_orphans && plan.drop_orphans(root)? > 0 {}
        let parents = plan.parents()?;
        plan.mark_parents(root, parents, |_, _| ())?;
    }
    Ok(RowDecisions { all: plan.verdicts, lots: lots.into_iter(), at: 0 })
}

#[derive(Debug)]
struct Plan<'a> {
    rows: EntryRecords,
    counters: &'a Counters,
    verdicts: Vec<RowDecision>,
    name_orphans: bool,
}

impl Plan<'_> {
    /// Reads all rows: collects possible duplicates and all parents, and adds up the checksum of each file.
    fn scan_rows(&self, lots: &mut [FileRows]) -> Result<(DuplicateCandidates, Parents)> {
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

    /// Keeps only the rows that are the newest both by entryUUID and by DN. Returns whether any row was omitted. If a
    /// newer entry has taken an entry's DN, the older entry no longer exists, even if the newer one was renamed later.
    /// Rows from number `again` on are newer than all others: an entry that moves with its parent keeps its CSN.
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

    /// Marks interior entries. Marks the first entry below each missing parent, and passes it to `see`.
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

    /// Drops entries whose parent is missing; the next call drops their children. Returns how many were dropped.
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

    /// Returns the parents of the kept rows.
    fn parents(&mut self) -> Result<Parents> {
        let mut parents = Parents::default();
        self.each_kept(|_, _, row| parents.see(row))?;
        Ok(parents)
    }

    fn each_kept(&mut self, mut see: impl FnMut(&mut RowDecision, usize, &EntryRecord)) -> Result<()> {
        let verdicts = &mut self.verdicts;
        self.rows.each(self.counters, false, |_, at, row| {
            if verdicts[at].is_kept() {
                see(&mut verdicts[at], at, row);
            }
        })
    }
}

/// Candidates by entryUUID, and by DN.
type DuplicateCandidates = [PossibleDuplicates; 2];

/// Hashes of the DNs of all parents.
#[derive(Default)]
struct Parents {
    all: FxHashSet<u128>,
    last: Option<u128>,
}

impl Parents {
    fn see(&mut self, row: &EntryRecord) {
        // Consecutive entries often have the same parent.
        if self.last.replace(row.parent) != Some(row.parent) {
            self.all.insert(row.parent);
        }
    }
}

/// Removes DNs that need no entry: the parent of the root, and the empty DN.
fn forget_above(root: &ParsedDn, missing: &mut FxHashSet<u128>) {
    missing.remove(&hash(root.parent()));
    missing.remove(&hash(b""));
}

/// Finds the hashes that may occur twice: all duplicates and a few others, so that few must be sorted. Takes 4 to 8
/// bytes per hash.
struct PossibleDuplicates {
    /// Two bitmaps indexed by the upper bits of a hash: seen once, and seen twice.
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
    fn all_duplicates_are_among_few_candidates() {
        let rng = &mut fastrand::Rng::with_seed(1);
        for size in [1, 3, 4, 1000, 100_000] {
            let hashes: Vec<u128> = (0..size).map(|_| rng.u128(..)).collect();
            let twice = &hashes[..size / 10];
            let mut met = PossibleDuplicates::new(size + twice.len());
            hashes.iter().chain(twice).for_each(|&hash| met.see(hash));
            assert!(twice.iter().all(|&hash| met.again(hash)));
            let others = hashes[size / 10..].iter().filter(|&&hash| met.again(hash)).count();
            // In a small set, any number of hashes may collide by chance.
            assert!(size < 1000 || others <= size / 4, "{others} of {size}");
        }
    }
}
