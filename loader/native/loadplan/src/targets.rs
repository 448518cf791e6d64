//! Selects the entries that a plan reads, and those that it deletes, renames or copies. No entry is in both sets, so
//! that the expected results of searches hold while the plan is executed.

use synth::distribution::Zipf;
use synth::draw::{Stream, below};
use synth::permute::Permutation;

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
    pub fn new(things: u64, weights: &[u64], stream: Stream) -> Self {
        let sum: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
        let mut firsts = vec![0];
        let mut before = 0_u128;
        for weight in weights {
            before += u128::from(*weight);
            let first = (u128::from(things) * before).checked_div(sum).unwrap_or(0);
            firsts.push(u64::try_from(first).unwrap_or(u64::MAX));
        }
        Self { firsts, order: Permutation::new(things), key: stream.at(0) }
    }

    /// The number of items of a holder.
    pub fn of(&self, holder: usize) -> u64 {
        self.firsts[holder + 1] - self.firsts[holder]
    }

    /// The holder of an item, and the item's index there; `None` if there is no holder.
    pub fn holder(&self, thing: u64) -> Option<(usize, u64)> {
        let place = self.order.place(self.key, thing);
        let holder = self.firsts.partition_point(|first| *first <= place).checked_sub(1)?;
        (holder + 1 < self.firsts.len()).then(|| (holder, place - self.firsts[holder]))
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
        let found: HashSet<_> = (0..1000).map(|thing| quota.holder(thing).unwrap()).collect();
        assert_eq!(found.len(), 1000);
        assert!(found.iter().all(|&(holder, number)| number < quota.of(holder)));
    }

    #[test]
    fn without_holders_there_is_none() {
        assert_eq!(Shares::new(5, &[], Stream::new(1, &[])).holder(0), None);
        assert_eq!(Shares::new(0, &[0], Stream::new(1, &[])).holder(0), None);
    }
}
