//! The first pass: which entries stay, and which of them others stand under.
//!
//! Memory: 64 bytes an entry (four 128-bit hashes and numbers, no text), 16 more while duplicates are
//! looked for, and 2 after that. 30 million entries: 1.9 GB, 2.4 GB at the peak.

use std::collections::HashSet;
use std::path::PathBuf;

use ldif::walk::each_record;
use ldif::{Code, Counters, Error, Input, Record, Result};

use super::Task;
use crate::csn;
use crate::fingerprint::hash;
use crate::name::Name;

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
}

#[derive(Debug)]
pub(super) struct Plan {
    rows: Vec<Row>,
    verdicts: Vec<Verdict>,
    /// Rows from here on were read later than all before, in their order.
    again: u32,
}

#[derive(Debug, Clone, Copy)]
struct Row {
    dn: u128,
    parent: u128,
    /// 0 for an entry without entryUUID, which is nobody's duplicate by it.
    uuid: u128,
    /// 0 for an entry without entryCSN, which is older than all.
    csn: u128,
}

impl Plan {
    pub(super) fn make(task: &Task<'_>, root: &Name, counters: &Counters) -> Result<Self> {
        let mut rows = Vec::new();
        read_rows(task.paths, &mut rows, counters)?;
        let again = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        read_rows(task.again, &mut rows, counters)?;
        let leaf = Verdict { fate: Fate::Leaf, orphan: false };
        let mut plan = Self { verdicts: vec![leaf; rows.len()], rows, again };
        plan.drop_older(|row| row.uuid);
        plan.drop_older(|row| row.dn);
        while task.drop_orphans && plan.drop_orphans(root) > 0 {}
        plan.mark_parents(root);
        Ok(plan)
    }

    pub(super) fn into_verdicts(self) -> std::vec::IntoIter<Verdict> {
        self.verdicts.into_iter()
    }

    /// Of rows with the same key only the newest stays. An entry must win both by entryUUID and by
    /// DN: one that was overtaken at its DN is gone from there, even when its successor moved on.
    fn drop_older(&mut self, key: impl Fn(&Row) -> u128) {
        // Sorting the upper halves of the keys in place of the rows keeps memory small and near.
        let mut order: Vec<(u64, u32)> = Vec::with_capacity(self.rows.len());
        for (at, row) in (0..).zip(&self.rows) {
            order.push((upper(key(row)), at));
        }
        order.sort_unstable();
        for alike in order.chunk_by_mut(|one, next| one.0 == next.0) {
            if alike.len() > 1 {
                self.drop_older_of(alike, &key);
            }
        }
    }

    fn drop_older_of(&mut self, alike: &mut [(u64, u32)], key: impl Fn(&Row) -> u128) {
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

    fn parents(&self) -> HashSet<u128> {
        self.kept().map(|row| row.parent).collect()
    }

    fn kept(&self) -> impl Iterator<Item = &Row> {
        let all = self.verdicts.iter().zip(&self.rows);
        all.filter(|(verdict, _)| verdict.is_kept()).map(|(_, row)| row)
    }

    fn kept_mut(&mut self) -> impl Iterator<Item = (&mut Verdict, &Row)> {
        self.verdicts.iter_mut().zip(&self.rows).filter(|(verdict, _)| verdict.is_kept())
    }
}

/// What stands above the root is nobody's business here, nor is the parent of a DN of one RDN.
fn forget_above(root: &Name, missing: &mut HashSet<u128>) {
    missing.remove(&hash(root.parent()));
    missing.remove(&hash(b""));
}

fn read_rows(paths: &[PathBuf], rows: &mut Vec<Row>, counters: &Counters) -> Result<()> {
    let mut name = Name::default();
    for path in paths {
        each_record(Input::from_path(path)?, counters, |record| {
            if rows.len() == u32::MAX as usize {
                return Err(Error::new(Code::TooLarge, "more than 4,294,967,295 entries"));
            }
            rows.push(read_row(record, &mut name)?);
            Ok(())
        })?;
    }
    Ok(())
}

fn read_row(record: &Record<'_>, name: &mut Name) -> Result<Row> {
    let entry = record.entry()?;
    name.set(&entry.dn);
    let mut row = Row { dn: hash(name.key()), parent: hash(name.parent()), uuid: 0, csn: 0 };
    for field in entry.fields {
        let field = field?;
        if field.is("entryUUID") {
            row.uuid = hash(&field.value()?.to_ascii_lowercase());
        } else if field.is("entryCSN") {
            row.csn = csn::pack(&field.value()?);
        }
    }
    Ok(row)
}

#[allow(clippy::cast_possible_truncation, reason = "the upper half fits")]
fn upper(number: u128) -> u64 {
    (number >> 64) as u64
}
