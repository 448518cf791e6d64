//! Histograms with growing buckets: one bucket for each number below 64, then eight buckets for each power of two.

use crate::LEAST_SEEN;

const EXACT: u64 = 64;
/// The binary logarithm of `EXACT`.
const FIRST_DOUBLING: u64 = 6;
const PER_DOUBLING: u64 = 8;
/// Maximum number of buckets in the template. If there are more, the smallest buckets are joined with their neighbours.
const MOST_BUCKETS: usize = 40;
/// The sum of all weights in the template.
const WHOLE: u64 = 10_000;

#[derive(Debug, Clone, Default)]
pub struct Histogram {
    /// For each bucket, the count and the sum of its numbers.
    cells: Vec<(u64, u64)>,
}

/// The count and the sum of the numbers from `low` to `high`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    pub low: u64,
    pub high: u64,
    pub count: u64,
    pub sum: u64,
}

impl Histogram {
    pub fn add(&mut self, number: u64) {
        let index = bucket_index(number);
        if index >= self.cells.len() {
            self.cells.resize(index + 1, (0, 0));
        }
        let (count, sum) = &mut self.cells[index];
        *count += 1;
        *sum = sum.saturating_add(number);
    }

    pub fn merge(&mut self, other: &Self) {
        self.cells.resize(self.cells.len().max(other.cells.len()), (0, 0));
        for (mine, theirs) in self.cells.iter_mut().zip(&other.cells) {
            mine.0 += theirs.0;
            mine.1 = mine.1.saturating_add(theirs.1);
        }
    }

    pub fn total(&self) -> u64 {
        self.cells.iter().map(|(count, _)| count).sum()
    }

    #[allow(clippy::cast_precision_loss, reason = "a mean")]
    pub fn mean(&self) -> f64 {
        let sum = self.cells.iter().fold(0_u64, |sum, (_, more)| sum.saturating_add(*more));
        sum as f64 / (self.total().max(1)) as f64
    }

    /// Returns the buckets that are not empty, in ascending order.
    pub fn buckets(&self) -> Vec<Bucket> {
        let filled = self.cells.iter().enumerate().filter(|(_, (count, _))| *count > 0);
        let bucket =
            |(at, &(count, sum)): (usize, &(u64, u64))| Bucket { low: low(at), high: low(at + 1) - 1, count, sum };
        filled.map(bucket).collect()
    }

    pub fn least(&self) -> u64 {
        self.cells.iter().position(|(count, _)| *count > 0).map_or(0, low)
    }

    /// If all numbers were equal, returns this number.
    pub fn only(&self) -> Option<u64> {
        match self.buckets().as_slice() {
            [one] if one.low == one.high => Some(one.low),
            _ => None,
        }
    }

    /// Formats the histogram as inclusive ranges with their weights, such as `1=7000,2=2000,3-4=1000`.
    pub fn to_text(&self) -> String {
        let all = self.total().max(1);
        let mut buckets = self.buckets();
        let least = |buckets: &[Bucket]| (0..buckets.len()).min_by_key(|&at| buckets[at].count);
        while let Some(at) = least(&buckets) {
            let enough = buckets.len() <= MOST_BUCKETS && buckets[at].count >= LEAST_SEEN;
            if enough || buckets.len() == 1 {
                break;
            }
            join(&mut buckets, at);
        }
        let one = |bucket: &Bucket| {
            let weight = (bucket.count * WHOLE).div_ceil(all);
            let (low, high) = range(bucket);
            if low == high { format!("{low}={weight}") } else { format!("{low}-{high}={weight}") }
        };
        buckets.iter().map(one).collect::<Vec<_>>().join(",")
    }
}

fn bucket_index(number: u64) -> usize {
    if number < EXACT {
        return usize::try_from(number).unwrap_or(0);
    }
    let doubling = u64::from(number.ilog2());
    let part = (number >> (doubling - 3)) & (PER_DOUBLING - 1);
    usize::try_from(EXACT + (doubling - FIRST_DOUBLING) * PER_DOUBLING + part).unwrap_or(usize::MAX)
}

/// Returns the lowest number of the bucket at `index`.
fn low(index: usize) -> u64 {
    let index = index as u64;
    if index < EXACT {
        return index;
    }
    let (doubling, part) = ((index - EXACT) / PER_DOUBLING, (index - EXACT) % PER_DOUBLING);
    let doubling = doubling + FIRST_DOUBLING;
    if doubling >= 64 { u64::MAX } else { (PER_DOUBLING + part) << (doubling - 3) }
}

/// Returns a range that begins at the bucket's lowest number, and whose midpoint is the mean of the bucket's numbers.
fn range(bucket: &Bucket) -> (u64, u64) {
    let twice = (2 * bucket.sum + bucket.count / 2) / bucket.count.max(1);
    (bucket.low, twice.saturating_sub(bucket.low).max(bucket.low))
}

/// Joins a bucket with the neighbour that has the smaller count.
fn join(buckets: &mut Vec<Bucket>, at: usize) {
    let count = |at: usize| buckets.get(at).map_or(u64::MAX, |bucket| bucket.count);
    let before = at > 0 && count(at - 1) <= count(at + 1);
    let first = if before { at - 1 } else { at };
    let second = buckets.remove(first + 1);
    buckets[first].high = second.high;
    buckets[first].count += second.count;
    buckets[first].sum = buckets[first].sum.saturating_add(second.sum);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_in_its_bucket() {
        for number in (0..5000).chain([1 << 20, (1 << 40) + 12345, u64::MAX >> 1]) {
            let mut one = Histogram::default();
            one.add(number);
            let bucket = one.buckets()[0];
            assert!(bucket.low <= number && number <= bucket.high, "{number}: {bucket:?}");
            assert!((bucket.high - bucket.low) * 8 <= number.max(1));
        }
    }

    #[test]
    fn means_and_single_numbers_are_exact() {
        let mut some = Histogram::default();
        some.add(7);
        assert_eq!((some.only(), some.least()), (Some(7), 7));
        (0..3).for_each(|_| some.add(9));
        assert_eq!((some.total(), some.only()), (4, None));
        assert!((some.mean() - 8.5).abs() < 1e-9);
        let mut other = Histogram::default();
        other.merge(&some);
        assert_eq!(other.buckets(), some.buckets());
    }

    #[test]
    fn a_histogram_as_text() {
        let mut some = Histogram::default();
        for (number, count) in [(1, 700), (2, 300), (64, 500), (67, 500)] {
            (0..count).for_each(|_| some.add(number));
        }
        assert_eq!(some.to_text(), "1=3500,2=1500,64-67=5000");
    }
}
