//! Selects the kind of each operation, the entries that a plan reads, and those that it deletes, renames or copies. No
//! entry is in both sets, so that the expected results of searches hold while the plan is executed.

use synth::distribution::Zipf;
use synth::draw::{Stream, below};
use synth::permute::Permutation;
use synth::problem::suggestion;

/// A permutation of the entries of one kind. Entries to read are taken from its beginning, the first ones most often;
/// entries to delete, rename or copy are taken from its end.
#[derive(Debug)]
pub struct Targets {
    count: u64,
    order: Permutation,
    key: u64,
    rank: Zipf,
    /// The number of entries that may be read.
    read: u64,
}

impl Targets {
    /// `once` is the number of entries that are not read, `skew` the exponent of the Zipf distribution.
    pub fn new(count: u64, once: u64, skew: f64, stream: Stream) -> Result<Self, String> {
        let read = count.saturating_sub(once).max(1);
        let rank = Zipf::new(read, skew)?;
        let order = Permutation::new(count);
        Ok(Self { count, order, key: stream.at(0), rank, read })
    }

    /// Selects an entry to read, by a Zipf distribution.
    pub fn often(&self, bits: u64) -> u64 {
        self.order.place(self.key, self.rank.rank(bits) - 1)
    }

    /// The entry to delete, rename or copy with this number.
    pub fn once(&self, number: u64) -> u64 {
        self.order.place(self.key, (self.read + number).min(self.count - 1))
    }

    /// Selects any entry.
    pub const fn any(&self, bits: u64) -> u64 {
        below(bits, self.count)
    }
}

/// Distributes items among holders in proportion to their weights. The holder of an item, and the item's index there,
/// follow from the number of the item.
#[derive(Debug)]
pub struct Shares {
    /// The first item of each holder, followed by the number of items.
    firsts: Vec<u64>,
    order: Permutation,
    key: u64,
}

impl Shares {
    pub fn new(items: u64, weights: &[u64], stream: Stream) -> Self {
        let sum: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
        let mut firsts = vec![0];
        let mut before = 0_u128;
        for weight in weights {
            before += u128::from(*weight);
            let first = (u128::from(items) * before).checked_div(sum).unwrap_or(0);
            firsts.push(u64::try_from(first).unwrap_or(u64::MAX));
        }
        Self { firsts, order: Permutation::new(items), key: stream.at(0) }
    }

    /// The number of items of a holder.
    pub fn of(&self, holder: usize) -> u64 {
        self.firsts[holder + 1] - self.firsts[holder]
    }

    /// The holder of an item, and the item's index there; `None` if there is no holder.
    pub fn holder(&self, item: u64) -> Option<(usize, u64)> {
        let place = self.order.place(self.key, item);
        let holder = self.firsts.partition_point(|first| *first <= place).checked_sub(1)?;
        (holder + 1 < self.firsts.len()).then(|| (holder, place - self.firsts[holder]))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Search,
    Bind,
    Modify,
    Add,
    Delete,
    Rename,
}

const NAMES: [(&str, Action); 6] = [
    ("search", Action::Search),
    ("bind", Action::Bind),
    ("modify", Action::Modify),
    ("add", Action::Add),
    ("delete", Action::Delete),
    ("modrdn", Action::Rename),
];

impl Action {
    pub fn named(name: &str) -> Result<Self, String> {
        let found = NAMES.iter().find(|(known, _)| *known == name).map(|(_, action)| *action);
        let known = NAMES.map(|(known, _)| known);
        found.ok_or_else(|| format!("there is no operation {name}{}", suggestion(name, known)))
    }
}

/// The upper limit of the sum of all shares.
const LONGEST: u64 = 1_000_000;

/// The kind of each operation. A plan consists of rounds, in each of which every kind has exactly its share, in random
/// order. So the index of an operation among those of its kind can be computed from its number alone.
#[derive(Debug)]
pub struct Schedule {
    /// The action, its number per round, and the position of its first.
    shares: Vec<(Action, u64, u64)>,
    sum: u64,
    round: Permutation,
    stream: Stream,
}

impl Schedule {
    pub fn new(shares: &[(Action, u64)], stream: Stream) -> Result<Self, String> {
        let mut sum = 0_u64;
        let mut placed = Vec::new();
        for &(action, share) in shares.iter().filter(|(_, share)| *share > 0) {
            placed.push((action, share, sum));
            sum = sum.saturating_add(share);
        }
        if placed.is_empty() || sum > LONGEST {
            return Err(format!("shares must be more than 0, and {LONGEST} at most together"));
        }
        Ok(Self { shares: placed, sum, round: Permutation::new(sum), stream })
    }

    /// The kind of operation `number`, and its index among the operations of this kind.
    pub fn at(&self, number: u64) -> (Action, u64) {
        let (round, place) = (number / self.sum, number % self.sum);
        let place = self.round.place(self.stream.at(round), place);
        let found = self.shares.iter().rev().find(|(_, _, first)| *first <= place);
        let &(action, share, first) = found.unwrap_or(&self.shares[0]);
        (action, round * share + place - first)
    }

    /// An upper bound, exclusive, of the index that [`Self::at`] returns for any of the first `operations` operations.
    pub fn most(&self, action: Action, operations: u64) -> u64 {
        let share = self.shares.iter().find(|(known, ..)| *known == action);
        operations.div_ceil(self.sum) * share.map_or(0, |(_, share, _)| *share)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn what_is_read_is_not_taken_away() {
        let stream = Stream::new(1, &["targets"]);
        let targets = Targets::new(1000, 100, 0.9, stream).unwrap();
        let once: HashSet<u64> = (0..100).map(|number| targets.once(number)).collect();
        let often: HashSet<u64> =
            (0..20_000).map(|number| targets.often(stream.at(number))).collect();
        assert_eq!(once.len(), 100);
        assert!(often.len() > 500);
        assert!(once.is_disjoint(&often));
    }

    #[test]
    fn few_are_read_often() {
        let stream = Stream::new(1, &["skew"]);
        let targets = Targets::new(100_000, 0, 1.0, stream).unwrap();
        let mut counts = std::collections::HashMap::new();
        for number in 0..10_000 {
            *counts.entry(targets.often(stream.at(number))).or_insert(0) += 1;
        }
        let most = *counts.values().max().unwrap();
        assert!((600..1100).contains(&most), "{most}");
    }

    #[test]
    fn a_quota_deals_out_all_and_each_once() {
        let quota = Shares::new(1000, &[30, 0, 69, 1], Stream::new(1, &["quota"]));
        assert_eq!([0, 1, 2, 3].map(|holder| quota.of(holder)), [300, 0, 690, 10]);
        let found: HashSet<_> = (0..1000).map(|item| quota.holder(item).unwrap()).collect();
        assert_eq!(found.len(), 1000);
        assert!(found.iter().all(|&(holder, number)| number < quota.of(holder)));
    }

    #[test]
    fn without_holders_no_item_has_one() {
        assert_eq!(Shares::new(5, &[], Stream::new(1, &[])).holder(0), None);
        assert_eq!(Shares::new(0, &[0], Stream::new(1, &[])).holder(0), None);
    }

    #[test]
    fn every_round_has_each_its_share_and_no_number_twice() {
        let shares =
            [(Action::Search, 7), (Action::Delete, 2), (Action::Bind, 0), (Action::Add, 1)];
        let schedule = Schedule::new(&shares, Stream::new(1, &["mix"])).unwrap();
        let mut deletes: Vec<u64> = (0..1000)
            .map(|number| schedule.at(number))
            .filter(|(action, _)| *action == Action::Delete)
            .map(|(_, ordinal)| ordinal)
            .collect();
        assert_eq!(schedule.most(Action::Delete, 1000), 200);
        assert_eq!(schedule.most(Action::Bind, 1000), 0);
        deletes.sort_unstable();
        assert_eq!(deletes, (0..200).collect::<Vec<_>>());
    }

    #[test]
    fn nothing_is_no_mix() {
        let stream = Stream::new(1, &[]);
        assert!(Schedule::new(&[(Action::Bind, 0)], stream).is_err());
        assert!(Schedule::new(&[(Action::Bind, u64::MAX), (Action::Add, 9)], stream).is_err());
    }

    #[test]
    fn operations_have_names() {
        assert_eq!(Action::named("modrdn"), Ok(Action::Rename));
        assert!(Action::named("serach").unwrap_err().contains("did you mean search"));
    }
}
