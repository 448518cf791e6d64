//! The first pass: which entries stay, and which of them others stand under.
//!
//! Memory: 64 bytes an entry (four 128-bit hashes and numbers, no text), 4 to 8 more while duplicates are
//! looked for, and 2 after that. 30 million entries: 1.9 GB, 2.2 GB at the peak.

use std::path::{Path, PathBuf};

use ldif::walk::each_record;
use ldif::{Code, Counters, Error, Input, Result};
use rustc_hash::FxHashSet;

use super::Task;
use super::list::List;
use crate::fingerprint::{Checksum, Printer, hash};
use crate::join::context_csn;
use crate::name::Name;
use crate::row::Row;

/// What becomes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Leaf,
    /// Others stand under it, or it is the root.
    Interior,
    /// Left out: a newer one has its entryUUID or DN.
    Overtaken,
    /// Left out: an ancestor is nowhere.
    Dropped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) fate: Fate,
    /// The first to name a parent that is nowhere.
    pub(super) orphan: bool,
}

impl Verdict {
    fn is_kept(self) -> bool {
        matches!(self.fate, Fate::Leaf | Fate::Interior)
    }

    /// Stays where it is, and there is nothing to say about it.
    pub(super) fn is_plain(self) -> bool {
        self.fate == Fate::Leaf && !self.orphan
    }
}

#[derive(Debug)]
pub(super) struct Plan {
    rows: Vec<Key>,
    verdicts: Vec<Verdict>,
    /// Rows from here on were read later than all before, in their order.
    again: u32,
    lots: Vec<Lot>,
}

/// The rows of one file.
#[derive(Debug, Clone, Copy, Default)]
struct Lot {
    rows: usize,
    /// What they add to the checksum of the tree.
    checksum: Checksum,
}

/// What of a row decides about it.
#[derive(Debug, Clone, Copy)]
struct Key {
    dn: u128,
    parent: u128,
    uuid: u128,
    csn: u128,
}

impl From<&Row> for Key {
    fn from(row: &Row) -> Self {
        Self { dn: row.dn, parent: row.parent, uuid: row.uuid, csn: row.csn }
    }
}

/// The decisions, file by file.
#[derive(Debug)]
pub(super) struct Verdicts {
    all: Vec<Verdict>,
    lots: std::vec::IntoIter<Lot>,
    at: usize,
}

impl Verdicts {
    /// Those of the next file, and what its records add to the checksum.
    pub(super) fn next_file(&mut self) -> (&[Verdict], Checksum) {
        let (from, lot) = (self.at, self.lots.next().unwrap_or_default());
        self.at += lot.rows;
        (&self.all[from..self.at], lot.checksum)
    }
}

impl Plan {
    pub(super) fn make(task: &Task<'_>, root: &Name, counters: &Counters) -> Result<Self> {
        let (mut rows, mut lots) = (Vec::new(), Vec::new());
        read_rows(task.paths, &mut rows, &mut lots, counters)?;
        let again = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        read_rows(task.again, &mut rows, &mut lots, counters)?;
        let leaf = Verdict { fate: Fate::Leaf, orphan: false };
        let mut plan = Self { verdicts: vec![leaf; rows.len()], rows, again, lots };
        plan.drop_older(|row| row.uuid);
        plan.drop_older(|row| row.dn);
        while task.drop_orphans && plan.drop_orphans(root) > 0 {}
        plan.mark_parents(root);
        Ok(plan)
    }

    pub(super) fn into_verdicts(self) -> Verdicts {
        Verdicts { all: self.verdicts, lots: self.lots.into_iter(), at: 0 }
    }

    /// Of rows with the same key only the newest stays. An entry must win both by entryUUID and by
    /// DN: one that was overtaken at its DN is gone from there, even when its successor moved on.
    fn drop_older(&mut self, key: impl Fn(&Key) -> u128) {
        let mut met = Met::new(self.rows.len());
        self.rows.iter().for_each(|row| met.see(upper(key(row))));
        let keys = (0..).zip(&self.rows).map(|(at, row)| (upper(key(row)), at));
        let mut order: Vec<(u64, u32)> = keys.filter(|(key, _)| met.again(*key)).collect();
        order.sort_unstable();
        for alike in order.chunk_by_mut(|one, next| one.0 == next.0) {
            if alike.len() > 1 {
                self.drop_older_of(alike, &key);
            }
        }
    }

    fn drop_older_of(&mut self, alike: &mut [(u64, u32)], key: impl Fn(&Key) -> u128) {
        let row = |at: u32| &self.rows[at as usize];
        // What was read again is the truth, whatever its CSN: an entry that moved with its parent keeps its own.
        let age = |at: u32| if at < self.again { (row(at).csn, at) } else { (u128::MAX, at) };
        alike.sort_unstable_by_key(|&(_, at)| (key(row(at)), age(at)));
        for pair in alike.windows(2) {
            let (older, newer) = (key(row(pair[0].1)), key(row(pair[1].1)));
            if older == newer && older != 0 {
                self.verdicts[pair[0].1 as usize].fate = Fate::Overtaken;
            }
        }
    }

    fn mark_parents(&mut self, root: &Name) {
        let mut missing = self.parents();
        let root_hash = hash(root.key());
        for (verdict, row) in self.kept_mut() {
            if missing.remove(&row.dn) || row.dn == root_hash {
                verdict.fate = Fate::Interior;
            }
        }
        forget_above(root, &mut missing);
        for (verdict, row) in self.kept_mut() {
            verdict.orphan = missing.remove(&row.parent);
        }
    }

    /// Drops the entries whose parent is nowhere; their children are next. Returns how many.
    fn drop_orphans(&mut self, root: &Name) -> usize {
        let mut missing = self.parents();
        for row in self.kept() {
            missing.remove(&row.dn);
        }
        forget_above(root, &mut missing);
        let orphans = self.kept_mut().filter(|(_, row)| missing.contains(&row.parent));
        orphans.map(|(verdict, _)| verdict.fate = Fate::Dropped).count()
    }

    fn parents(&self) -> FxHashSet<u128> {
        let (mut parents, mut last) = (FxHashSet::default(), None);
        for row in self.kept() {
            // Children of one parent often stand together.
            if last.replace(row.parent) != Some(row.parent) {
                parents.insert(row.parent);
            }
        }
        parents
    }

    fn kept(&self) -> impl Iterator<Item = &Key> {
        let all = self.verdicts.iter().zip(&self.rows);
        all.filter(|(verdict, _)| verdict.is_kept()).map(|(_, row)| row)
    }

    fn kept_mut(&mut self) -> impl Iterator<Item = (&mut Verdict, &Key)> {
        self.verdicts.iter_mut().zip(&self.rows).filter(|(verdict, _)| verdict.is_kept())
    }
}

/// Which hashes may have been seen twice: all that were, and few besides. So hardly any are left to be
/// sorted.
struct Met {
    /// For each value of the upper bits of a hash: seen, and seen again.
    bits: Vec<[u64; 2]>,
    shift: u32,
}

impl Met {
    fn new(hashes: usize) -> Self {
        let words = (hashes / 4).next_power_of_two();
        Self { bits: vec![[0; 2]; words], shift: u64::BITS - 6 - words.ilog2() }
    }

    fn see(&mut self, hash: u64) {
        let (word, bit) = self.place(hash);
        let [seen, again] = &mut self.bits[word];
        *again |= *seen & bit;
        *seen |= bit;
    }

    fn again(&self, hash: u64) -> bool {
        let (word, bit) = self.place(hash);
        self.bits[word][1] & bit != 0
    }

    #[allow(clippy::cast_possible_truncation, reason = "it is below the number of words")]
    fn place(&self, hash: u64) -> (usize, u64) {
        let place = hash >> self.shift;
        ((place >> 6) as usize, 1 << (place & 63))
    }
}

/// What stands above the root is nobody's business here, nor is the parent of a DN of one RDN.
fn forget_above(root: &Name, missing: &mut FxHashSet<u128>) {
    missing.remove(&hash(root.parent()));
    missing.remove(&hash(b""));
}

fn read_rows(
    paths: &[PathBuf],
    rows: &mut Vec<Key>,
    lots: &mut Vec<Lot>,
    counters: &Counters,
) -> Result<()> {
    for path in paths {
        let mut lot = Lot::default();
        each_row(path, counters, |row| {
            if rows.len() == u32::MAX as usize {
                return Err(Error::new(Code::TooLarge, "more than 4,294,967,295 entries"));
            }
            rows.push(Key::from(row));
            lot.rows += 1;
            lot.checksum.add(row.print);
            Ok(())
        })?;
        lots.push(lot);
    }
    Ok(())
}

/// From the list that lies beside the file, else from its records.
fn each_row(
    path: &Path,
    counters: &Counters,
    mut see: impl FnMut(&Row) -> Result<()>,
) -> Result<()> {
    if let Some(list) = List::beside(path)? {
        return list.each(counters, see);
    }
    let mut printer = Printer::new(context_csn());
    each_record(Input::from_path(path)?, counters, |record| see(&Row::of(record, &mut printer)?))
        .map(drop)
}

#[allow(clippy::cast_possible_truncation, reason = "the upper half fits")]
fn upper(number: u128) -> u64 {
    (number >> 64) as u64
}
