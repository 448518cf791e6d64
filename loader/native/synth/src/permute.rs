//! Keyed bijections of 0..count: numbers that look random and never meet twice.
//!
//! A Feistel network of four rounds over the next even number of bits; what falls outside is sent through again until it
//! is inside (cycle walking; Black and Rogaway 2002), fewer than four times on average.

use crate::draw::{Stream, again};

const ROUNDS: u64 = 4;

#[derive(Debug, Clone, Copy)]
pub struct Permutation {
    count: u64,
    /// Bits of a half.
    half: u32,
}

impl Permutation {
    /// Of at least one number.
    pub const fn new(count: u64) -> Self {
        let count = if count == 0 { 1 } else { count };
        let bits = u64::BITS - (count - 1).leading_zeros();
        Self { count, half: if bits < 2 { 1 } else { bits.div_ceil(2) } }
    }

    /// Where `number` goes under the key; numbers from `count` on begin anew.
    pub fn place(self, key: u64, number: u64) -> u64 {
        let mut place = number % self.count;
        loop {
            place = self.shuffle(key, place);
            if place < self.count {
                return place;
            }
        }
    }

    fn shuffle(self, key: u64, place: u64) -> u64 {
        let mask = (1_u64 << self.half) - 1;
        let (mut left, mut right) = (place >> self.half, place & mask);
        for round in 0..ROUNDS {
            (left, right) = (right, left ^ (again(key ^ right, round + 1) & mask));
        }
        left << self.half | right
    }

    /// Under the key that a stream starts with.
    pub fn of(self, stream: Stream, number: u64) -> u64 {
        self.place(stream.at(0), number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_met_once() {
        for count in [1, 2, 3, 5, 64, 100, 1000, 4097] {
            let permutation = Permutation::new(count);
            for key in [0, 1, u64::MAX] {
                let mut found: Vec<u64> =
                    (0..count).map(|number| permutation.place(key, number)).collect();
                found.sort_unstable();
                assert_eq!(found, (0..count).collect::<Vec<_>>(), "{count}");
            }
        }
    }

    #[test]
    fn neighbours_part() {
        let permutation = Permutation::new(1_000_000);
        let close = (0..1000)
            .filter(|&number| {
                permutation.place(9, number).abs_diff(permutation.place(9, number + 1)) < 1000
            })
            .count();
        assert!(close < 10, "{close}");
    }

    #[test]
    fn the_largest_range_is_walked() {
        let permutation = Permutation::new(u64::MAX);
        assert!(permutation.place(1, u64::MAX - 1) < u64::MAX);
    }
}
