//! What is counted of the entries that stand in the same place and have the same object classes.

use rustc_hash::FxHashMap;

use crate::histogram::Histogram;
use crate::sampled::{Counts, Sampled};

/// Distinct values of one attribute, and parents of one kind, that are counted one by one.
const MOST_COUNTED: usize = 1 << 14;
/// Whole entries kept of one kind, as records.
const MOST_RECORDS: usize = 1 << 15;

/// What makes entries be of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// As [`crate::place::Place::path`] gives it.
    pub path: Box<str>,
    /// Lower case, sorted, parted by spaces.
    pub classes: Box<str>,
}

#[derive(Debug)]
pub struct Kind {
    pub entries: u64,
    pub attributes: FxHashMap<Box<str>, Attribute>,
    /// Children of this kind by the hash of their parent.
    pub parents: Counts,
    /// Some entries as LDIF, by the hash of their DN; long values and lists are left out of them.
    pub records: Sampled<Box<[u8]>>,
    /// Bytes of these.
    pub size: usize,
}

/// One attribute of a kind, by what stands in all entries.
#[derive(Debug)]
pub struct Attribute {
    /// As an entry spells it.
    pub spelling: Box<str>,
    /// Entries that have it.
    pub entries: u64,
    pub values: u64,
    /// Values that are no text.
    pub binary: u64,
    /// Values in an entry that has any.
    pub counts: Histogram,
    /// Bytes of a value.
    pub lengths: Histogram,
    /// Hashes of values without regard to case.
    pub distinct: Counts,
}

impl Default for Kind {
    fn default() -> Self {
        Self {
            entries: 0,
            attributes: FxHashMap::default(),
            parents: Counts::new(MOST_COUNTED),
            records: Sampled::new(MOST_RECORDS),
            size: 0,
        }
    }
}

impl Kind {
    pub fn keep(&mut self, hash: u64, record: &[u8]) {
        let level = self.records.level();
        self.records.note(hash, |kept| *kept = record.into());
        self.size += record.len();
        if self.records.level() > level {
            self.measure();
        }
    }

    /// Keeps fewer records.
    pub fn raise(&mut self, level: u32) {
        if level > self.records.level() {
            self.records.raise(level);
            self.measure();
        }
    }

    fn measure(&mut self) {
        self.size = self.records.values().map(|record| record.len()).sum();
    }

    pub fn merge(&mut self, other: Self) {
        self.entries += other.entries;
        self.parents.add(other.parents);
        self.records.merge(other.records, |mine, theirs| *mine = theirs);
        self.measure();
        for (name, theirs) in other.attributes {
            match self.attributes.entry(name) {
                std::collections::hash_map::Entry::Occupied(mine) => mine.into_mut().merge(theirs),
                std::collections::hash_map::Entry::Vacant(place) => {
                    place.insert(theirs);
                }
            }
        }
    }
}

impl Attribute {
    pub fn new(spelling: &str) -> Self {
        Self {
            spelling: spelling.into(),
            entries: 0,
            values: 0,
            binary: 0,
            counts: Histogram::default(),
            lengths: Histogram::default(),
            distinct: Counts::new(MOST_COUNTED),
        }
    }

    fn merge(&mut self, other: Self) {
        // Any would do, but it must be the same each time.
        self.spelling = std::cmp::min(std::mem::take(&mut self.spelling), other.spelling);
        self.entries += other.entries;
        self.values += other.values;
        self.binary += other.binary;
        self.counts.merge(&other.counts);
        self.lengths.merge(&other.lengths);
        self.distinct.add(other.distinct);
    }
}
