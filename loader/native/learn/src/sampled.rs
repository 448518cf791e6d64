//! A sample of distinct keys, of limited size. The sample does not depend on the order of the keys.
//!
//! A key is kept if its hash begins with `level` zero bits. The level rises when the sample exceeds its limit (P.
//! Gibbons, "Distinct Sampling for Highly-Accurate Answers to Distinct Values Queries", VLDB 2001). The data of a kept
//! key are complete, because the key was kept at every lower level too.

use rustc_hash::FxHashMap;

#[derive(Debug, Clone, Default)]
pub struct Sampled<V, const CAP: usize> {
    level: u32,
    kept: FxHashMap<u64, V>,
}

impl<V: Default, const CAP: usize> Sampled<V, CAP> {
    /// Whether the sample keeps this key at its current level.
    pub fn takes(&self, hash: u64) -> bool {
        hash.leading_zeros() >= self.level
    }

    /// Returns how many distinct keys each kept key represents.
    pub fn scale(&self) -> f64 {
        2f64.powi(i32::try_from(self.level).unwrap_or(i32::MAX))
    }

    /// Returns the estimated number of distinct keys.
    pub fn estimate(&self) -> u64 {
        (self.kept.len() as u64) << self.level.min(40)
    }

    pub fn get(&self, hash: u64) -> Option<&V> {
        self.kept.get(&hash)
    }

    pub fn keys(&self) -> impl Iterator<Item = u64> {
        self.kept.keys().copied()
    }

    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.kept.values()
    }

    /// Returns the kept keys in ascending order, with their data.
    pub fn sorted(&self) -> Vec<(u64, &V)> {
        let mut all: Vec<_> = self.kept.iter().map(|(&hash, value)| (hash, value)).collect();
        all.sort_unstable_by_key(|(hash, _)| *hash);
        all
    }

    /// Updates the data of a key, if the sample keeps it.
    pub fn note(&mut self, hash: u64, change: impl FnOnce(&mut V)) {
        if self.takes(hash) {
            change(self.kept.entry(hash).or_default());
            self.fit();
        }
    }

    /// Raises the level until the sample is within its limit.
    fn fit(&mut self) {
        while self.kept.len() > CAP {
            self.raise(self.level + 1);
        }
    }

    /// Raises the level to `level`, unless it is already higher.
    pub fn raise(&mut self, level: u32) {
        if level > self.level {
            self.level = level;
            self.kept.retain(|hash, _| hash.leading_zeros() >= level);
        }
    }

    pub fn level(&self) -> u32 {
        self.level
    }

    /// Adds the sample of another worker. `add` merges the data of a key.
    pub fn merge(&mut self, other: Self, mut add: impl FnMut(&mut V, V)) {
        self.raise(other.level);
        for (hash, value) in other.kept {
            if self.takes(hash) {
                add(self.kept.entry(hash).or_default(), value);
            }
        }
        self.fit();
    }
}

/// The occurrences of each key, for up to 16,384 keys: values of an attribute, or parents of a kind.
pub type Counts = Sampled<u64, { 1 << 14 }>;

impl<const CAP: usize> Sampled<u64, CAP> {
    pub fn count(&mut self, hash: u64) {
        self.note(hash, |count| *count += 1);
    }

    pub fn add(&mut self, other: Self) {
        self.merge(other, |count, more| *count += more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(key: u64) -> u64 {
        xxhash_rust::xxh3::xxh3_64(&key.to_le_bytes())
    }

    #[test]
    fn all_keys_within_the_limit_are_kept() {
        let mut counts = Sampled::<u64, 100>::default();
        (0..300).for_each(|number| counts.count(hash(number % 100)));
        assert_eq!((counts.estimate(), counts.level()), (100, 0));
        assert!(counts.sorted().iter().all(|(_, count)| **count == 3));
    }

    #[test]
    fn a_sample_estimates_and_counts_exactly() {
        let mut counts = Sampled::<u64, 1000>::default();
        (0..200_000).for_each(|number| counts.count(hash(number % 50_000)));
        let estimate = counts.estimate();
        assert!((45_000..55_000).contains(&estimate), "{estimate}");
        assert!(counts.sorted().iter().all(|(_, count)| **count == 4));
    }

    #[test]
    fn the_order_of_keys_and_their_division_among_workers_do_not_matter() {
        type Some = Sampled<u64, 500>;
        let (mut whole, mut first, mut second) = (Some::default(), Some::default(), Some::default());
        for number in 0..20_000 {
            whole.count(hash(number));
            if number % 3 == 0 { &mut first } else { &mut second }.count(hash(number));
        }
        second.add(first);
        assert_eq!(whole.sorted(), second.sorted());
    }
}
