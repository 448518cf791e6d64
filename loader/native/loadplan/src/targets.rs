//! Chooses the kind of each operation, the entries to read, and the entries to delete, rename or copy. An entry to
//! delete, rename or copy is never read, so that the expected results of searches hold while the plan is executed.

use synth::distribution::Zipf;
use synth::draw::{Stream, below};
use synth::permute::Permutation;
use synth::problem::suggestion;

/// A permutation of the entries of one kind. It begins with the entries to read, the most frequently read entries
/// first. It ends with the entries to delete, rename or copy.
#[derive(Debug)]
pub struct Targets {
    count: u64,
    order: Permutation,
    key: u64,
    rank: Zipf,
    /// Number of entries that may be read.
    read: u64,
}

impl Targets {
    /// `once` is the number of entries to delete, rename or copy. `skew` is the exponent of the Zipf distribution of
    /// the entries to read.
    pub fn new(count: u64, once: u64, skew: f64, stream: Stream) -> Result<Self, String> {
        let read = count.saturating_sub(once).max(1);
        let rank = Zipf::new(read, skew)?;
        let order = Permutation::new(count);
        Ok(Self { count, order, key: stream.at(0), rank, read })
    }

    /// Chooses an entry to read.
    pub fn often(&self, bits: u64) -> u64 {
        self.order.place(self.key, self.rank.rank(bits) - 1)
    }

    /// Returns the entry for delete, rename or copy `number`.
    pub fn once(&self, number: u64) -> u64 {
        self.order.place(self.key, (self.read + number).min(self.count - 1))
    }

    /// Chooses an entry; all are equally likely.
    pub const fn any(&self, bits: u64) -> u64 {
        below(bits, self.count)
    }
}

/// Distributes numbered items among holders in proportion to their weights.
#[derive(Debug)]
pub struct Shares {
    /// First item of each holder in the permuted order. The last element is the number of items.
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

    /// Returns the number of items of a holder.
    pub fn of(&self, holder: usize) -> u64 {
        self.firsts[holder + 1] - self.firsts[holder]
    }

    /// Returns the holder of an item and the item's index within the holder, or None if there is no holder.
    pub fn holder(&self, item: u64) -> Option<(usize, u64)> {
        let item = self.order.place(self.key, item);
        let holder = self.firsts.partition_point(|first| *first <= item).checked_sub(1)?;
        (holder + 1 < self.firsts.len()).then(|| (holder, item - self.firsts[holder]))
    }
}

common::named!(
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Action {
        Search = "search",
        Bind = "bind",
        Modify = "modify",
        Add = "add",
        Delete = "delete",
        Rename = "modrdn",
    }
);

impl Action {
    /// Returns the action of this name, or an error that suggests a similar name.
    pub fn named(name: &str) -> Result<Self, String> {
        let all = [Self::Search, Self::Bind, Self::Modify, Self::Add, Self::Delete, Self::Rename];
        let hint = || suggestion(name, all.map(Self::as_str));
        Self::from_name(name).ok_or_else(|| format!("there is no operation {name}{}", hint()))
    }
}

/// Maximum number of operations in a round: the sum of the shares of all actions.
const LONGEST_ROUND: u64 = 1_000_000;

/// Chooses the kind of each operation. A plan consists of rounds. In each round, every kind has exactly its share of
/// operations, in random order. So the index of an operation among those of its kind follows from its number alone.
#[derive(Debug)]
pub struct Schedule {
    /// Each action with its share and its first index in a round before the permutation.
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
        if placed.is_empty() || sum > LONGEST_ROUND {
            return Err(format!("the sum of the shares must be from 1 to {LONGEST_ROUND}"));
        }
        Ok(Self { shares: placed, sum, round: Permutation::new(sum), stream })
    }

    /// Returns the kind of operation `number`, and its index among the operations of this kind.
    pub fn at(&self, number: u64) -> (Action, u64) {
        let round = number / self.sum;
        let index = self.round.place(self.stream.at(round), number % self.sum);
        let entry = self.shares.iter().rev().find(|(_, _, first)| *first <= index);
        let &(action, share, first) = entry.unwrap_or(&self.shares[0]);
        (action, round * share + index - first)
    }

    /// Returns an exclusive upper bound of the indexes that [`Self::at`] returns for the first `operations` operations.
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
    fn entries_to_read_are_never_deleted() {
        let stream = Stream::new(1, &["targets"]);
        let targets = Targets::new(1000, 100, 0.9, stream).unwrap();
        let once: HashSet<u64> = (0..100).map(|number| targets.once(number)).collect();
        let often: HashSet<u64> = (0..20_000).map(|number| targets.often(stream.at(number))).collect();
        assert_eq!(once.len(), 100);
        assert!(often.len() > 500);
        assert!(once.is_disjoint(&often));
    }

    #[test]
    fn few_entries_are_read_often() {
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
    fn every_item_has_one_holder() {
        let quota = Shares::new(1000, &[30, 0, 69, 1], Stream::new(1, &["quota"]));
        assert_eq!([0, 1, 2, 3].map(|holder| quota.of(holder)), [300, 0, 690, 10]);
        let found: HashSet<_> = (0..1000).map(|item| quota.holder(item).unwrap()).collect();
        assert_eq!(found.len(), 1000);
        assert!(found.iter().all(|&(holder, number)| number < quota.of(holder)));
    }

    #[test]
    fn without_holders_an_item_has_none() {
        assert_eq!(Shares::new(5, &[], Stream::new(1, &[])).holder(0), None);
        assert_eq!(Shares::new(0, &[0], Stream::new(1, &[])).holder(0), None);
    }

    #[test]
    fn every_round_has_the_share_of_each_kind() {
        let shares = [(Action::Search, 7), (Action::Delete, 2), (Action::Bind, 0), (Action::Add, 1)];
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
    fn a_mix_without_shares_is_refused() {
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
