//! A compiled template: its entries, their order and their parents.
//!
//! Entry 0 is the suffix. The other branches come next, then one kind after the other, so that children have greater
//! numbers than their parents.

use crate::body::Body;
use crate::distribution::{Zipf, normal};
use crate::draw::{Stream, again, below};
use crate::model::Pick;
use crate::permute::Permutation;
use crate::tags::time::Clock;

#[derive(Debug)]
pub struct Tree {
    pub description: String,
    pub suffix: String,
    /// A checksum of everything that decides the output, except the suffix, the seed and the numbers of entries.
    pub fingerprint: String,
    pub(crate) branches: Vec<Branch>,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) clock: Option<Clock>,
    /// Maximum size of an entry, in bytes.
    pub(crate) largest: u64,
}

#[derive(Debug)]
pub(crate) struct Branch {
    pub dn: Vec<u8>,
    pub body: Body,
    pub structural: Option<String>,
}

#[derive(Debug)]
pub struct Kind {
    pub name: String,
    /// Number of the first entry of this kind in the tree.
    pub start: u64,
    /// Number of entries of this kind.
    pub count: u64,
    pub structural: Option<String>,
    /// Attribute and slot of each part of the RDN. [`Maker::value`](crate::Maker::value) returns the value of a slot.
    pub rdn: Vec<(Vec<u8>, usize)>,
    /// The slots that the RDN needs, in the order in which to fill them.
    pub(crate) naming: Vec<usize>,
    pub(crate) parent: ParentRule,
    pub(crate) body: Body,
}

#[derive(Debug)]
pub(crate) enum ParentRule {
    Branch(usize),
    Kind { kind: usize, chooser: ParentChooser },
    Itself { branch: usize, levels: Levels },
}

/// Identifies an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryRef {
    Branch(usize),
    /// Index in [`Tree::kinds`], and number of the entry within that kind.
    Entry {
        kind: usize,
        index: u64,
    },
}

impl Kind {
    /// Returns the maximum length of a slot's value in bytes.
    pub fn longest(&self, slot: usize) -> u64 {
        self.body.slots[slot].text.most
    }
}

impl Tree {
    /// Returns the number of all entries, including the branches.
    pub fn entries(&self) -> u64 {
        self.kinds.last().map_or(self.branches.len() as u64, |kind| kind.start + kind.count)
    }

    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// Returns the entry with this number, which must be less than [`Self::entries`].
    pub fn place(&self, number: u64) -> EntryRef {
        match self.kinds.partition_point(|kind| kind.start <= number).checked_sub(1) {
            Some(kind) => EntryRef::Entry { kind, index: number - self.kinds[kind].start },
            None => EntryRef::Branch(usize::try_from(number).unwrap_or(0)),
        }
    }

    /// Returns the number of an entry in the tree.
    pub fn number(&self, entry: EntryRef) -> u64 {
        match entry {
            EntryRef::Branch(branch) => branch as u64,
            EntryRef::Entry { kind, index } => self.kinds[kind].start + index,
        }
    }

    /// Returns the parent of entry `index` of a kind.
    pub fn parent(&self, kind: usize, index: u64) -> EntryRef {
        match &self.kinds[kind].parent {
            ParentRule::Branch(branch) => EntryRef::Branch(*branch),
            ParentRule::Kind { kind, chooser } => EntryRef::Entry { kind: *kind, index: chooser.choose(index) },
            ParentRule::Itself { branch, levels } => match levels.parent(index) {
                Some(index) => EntryRef::Entry { kind, index },
                None => EntryRef::Branch(*branch),
            },
        }
    }
}

/// Chooses one of `of` parents for each of `count` child entries.
#[derive(Debug, Clone)]
pub struct ParentChooser {
    stream: Stream,
    count: u64,
    of: u64,
    way: ParentDistribution,
}

#[derive(Debug, Clone)]
enum ParentDistribution {
    Each,
    Uniform(Permutation),
    /// The distribution of ranks, and the permutation from ranks to parents.
    Zipf(Zipf, Permutation),
    Normal,
}

impl ParentChooser {
    /// `of` must not be 0.
    pub fn new(pick: Pick, stream: Stream, count: u64, of: u64) -> Result<Self, String> {
        let way = match pick {
            Pick::Each => ParentDistribution::Each,
            Pick::Uniform => ParentDistribution::Uniform(Permutation::new(of)),
            Pick::Zipf(exponent) => ParentDistribution::Zipf(Zipf::new(of, exponent)?, Permutation::new(of)),
            Pick::Normal => ParentDistribution::Normal,
        };
        Ok(Self { stream, count: count.max(1), of, way })
    }

    /// Returns the parent of child `index`.
    pub fn choose(&self, index: u64) -> u64 {
        match &self.way {
            ParentDistribution::Each => self.shared(index),
            ParentDistribution::Uniform(_) => below(self.stream.at(index), self.of),
            ParentDistribution::Zipf(zipf, order) => order.of(self.stream, zipf.rank(self.stream.at(index)) - 1),
            ParentDistribution::Normal => self.bell(self.stream.at(index)),
        }
    }

    /// Returns an entry for value `occurrence` of child `index`. [`Pick::Each`] and [`Pick::Uniform`] never repeat an
    /// entry.
    pub fn choose_another(&self, index: u64, occurrence: u64) -> u64 {
        let bits = self.stream.at(index);
        match &self.way {
            ParentDistribution::Each => (self.shared(index) + occurrence % self.of) % self.of,
            ParentDistribution::Uniform(order) => order.place(bits, occurrence),
            ParentDistribution::Zipf(zipf, order) => order.of(self.stream, zipf.rank(again(bits, occurrence + 1)) - 1),
            ParentDistribution::Normal => self.bell(again(bits, occurrence + 1)),
        }
    }

    /// Returns the same parent for consecutive children. All parents have the same number of children.
    #[allow(clippy::cast_possible_truncation, reason = "less than `of`")]
    fn shared(&self, index: u64) -> u64 {
        let parent = u128::from(index) * u128::from(self.of) / u128::from(self.count);
        (parent as u64).min(self.of - 1)
    }

    /// Draws from a normal distribution around the middle of the range. The standard deviation is a sixth of the range.
    #[allow(clippy::cast_precision_loss, reason = "as near as an f64 can say")]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    fn bell(&self, bits: u64) -> u64 {
        let all = self.of as f64;
        let at = all / 2.0 + normal(bits) * all / 6.0;
        (at.max(0.0) as u64).min(self.of - 1)
    }
}

/// The levels of a kind that is its own parent. The parent of an entry is on the level above it.
#[derive(Debug, Clone)]
pub struct Levels {
    /// Index of the first entry of each level; the last element is the number of entries.
    starts: Vec<u64>,
    /// For each level but the first, chooses parents on the level above.
    choosers: Vec<ParentChooser>,
}

impl Levels {
    /// Divides `count` entries into up to `levels` levels. Each level is larger than the level above by the same
    /// factor.
    pub fn new(count: u64, levels: u32, pick: Pick, stream: Stream) -> Result<Self, String> {
        let starts = level_starts(count, levels);
        let choosers = starts
            .windows(3)
            .map(|edge| ParentChooser::new(pick, stream.part(edge[0]), edge[2] - edge[1], edge[1] - edge[0]));
        let choosers = choosers.collect::<Result<_, String>>()?;
        Ok(Self { starts, choosers })
    }

    /// Returns the index of the parent of entry `index`, or None on the first level.
    pub fn parent(&self, index: u64) -> Option<u64> {
        let level = self.starts.partition_point(|&start| start <= index).checked_sub(2)?;
        let start = self.starts[level + 1];
        Some(self.starts[level] + self.choosers.get(level)?.choose(index - start))
    }
}

#[allow(clippy::cast_precision_loss, reason = "levels are as near as an f64 can say")]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to count")]
fn level_starts(count: u64, levels: u32) -> Vec<u64> {
    let all = count as f64;
    let factor = libm::pow(all, 1.0 / f64::from(levels.max(1)));
    let mut starts = vec![0];
    if factor > 1.0 {
        let whole = libm::pow(factor, f64::from(levels)) - 1.0;
        for level in 1..levels {
            let share = (libm::pow(factor, f64::from(level)) - 1.0) / whole;
            let start = ((all * share) as u64).max(starts[starts.len() - 1] + 1);
            if start >= count {
                break;
            }
            starts.push(start);
        }
    }
    starts.push(count);
    starts
}

#[cfg(test)]
mod tests {
    use super::*;
    fn chosen(pick: Pick, count: u64, of: u64) -> Vec<u64> {
        let chooser = ParentChooser::new(pick, Stream::new(1, &["parent"]), count, of).unwrap();
        (0..count).map(|index| chooser.choose(index)).collect()
    }

    #[test]
    fn each_gives_all_parents_the_same_number_of_children() {
        assert_eq!(chosen(Pick::Each, 6, 3), [0, 0, 1, 1, 2, 2]);
        assert_eq!(chosen(Pick::Each, 2, 4), [0, 2]);
    }

    #[test]
    fn every_choice_is_within_the_range() {
        for pick in [Pick::Each, Pick::Uniform, Pick::Zipf(1.1), Pick::Normal] {
            assert!(chosen(pick, 5000, 70).iter().all(|&one| one < 70), "{pick:?}");
            assert!(chosen(pick, 10, 1).iter().all(|&one| one == 0), "{pick:?}");
        }
    }

    #[test]
    fn zipf_prefers_few_parents() {
        let mut counts = [0; 100];
        for one in chosen(Pick::Zipf(1.2), 100_000, 100) {
            counts[usize::try_from(one).unwrap()] += 1;
        }
        counts.sort_unstable();
        assert!(counts[99] > 20_000 && counts[50] < 1_000, "{counts:?}");
        assert!(counts[0] > 0, "a rank has no parent: {counts:?}");
    }

    #[test]
    fn choices_for_one_entry_differ() {
        for pick in [Pick::Each, Pick::Uniform] {
            let chooser = ParentChooser::new(pick, Stream::new(1, &["members"]), 10, 50).unwrap();
            let mut members: Vec<u64> = (0..50).map(|turn| chooser.choose_another(3, turn)).collect();
            members.sort_unstable();
            assert_eq!(members, (0..50).collect::<Vec<_>>());
        }
    }

    #[test]
    fn each_level_is_larger_and_has_its_parents_above() {
        let levels = Levels::new(10_000, 4, Pick::Uniform, Stream::new(1, &["levels"])).unwrap();
        assert_eq!(levels.starts, [0, 9, 99, 999, 10_000].map(|start: u64| start));
        assert_eq!(levels.parent(8), None);
        for index in 9..10_000 {
            let parent = levels.parent(index).unwrap();
            let at = |number| levels.starts.partition_point(|&start| start <= number);
            assert_eq!(at(parent) + 1, at(index), "{index}");
        }
    }

    #[test]
    fn few_entries_make_few_levels() {
        for (count, levels) in [(1, 9), (2, 9), (3, 1), (0, 4)] {
            let levels = Levels::new(count, levels, Pick::Each, Stream::new(1, &["few"])).unwrap();
            assert!((0..count).all(|index| levels.parent(index).is_none_or(|above| above < index)));
        }
    }
}
