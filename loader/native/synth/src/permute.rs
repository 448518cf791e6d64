//! Permutations of the numbers below a count, selected by a key: the numbers look random and never repeat.
//!
//! The permutation is a Feistel network of four rounds over an even number of bits. A result outside the range is
//! permuted again until it is inside (cycle walking, Black and Rogaway 2002), on average fewer than four times.

use crate::draw::{Stream, again};

const ROUNDS: u64 = 4;

#[derive(Debug, Clone, Copy)]
pub struct Permutation {
    count: u64,
    /// Bits in each half of a block of the Feistel network.
    half: u32,
}

impl Permutation {
    /// `count` must be at least 1.
    pub const fn new(count: u64) -> Self {
        let count = if count == 0 { 1 } else { count };
        let bits = u64::BITS - (count - 1).leading_zeros();
        Self { count, half: if bits < 2 { 1 } else { bits.div_ceil(2) } }
    }

    /// Returns the image of `number` under `key`. Numbers from `count` on wrap around.
    pub fn place(self, key: u64, number: u64) -> u64 {
        let mask = (1_u64 << self.half) - 1;
        let mut image = number % self.count;
        loop {
            let (mut left, mut right) = (image >> self.half, image & mask);
            for round in 0..ROUNDS {
                (left, right) = (right, left ^ (again(key ^ right, round + 1) & mask));
            }
            image = left << self.half | right;
            if image < self.count {
                return image;
            }
        }
    }

    /// Returns stratified random bits for `number`: the range of 64 bits is divided into `count` equal parts, and each
    /// number gets a part of its own. `bits` select the position within that part.
    #[allow(clippy::cast_possible_truncation, reason = "below 2^64")]
    pub fn bits(self, stream: Stream, number: u64, bits: u64) -> u64 {
        let position = (u128::from(self.of(stream, number)) << 64) + u128::from(bits);
        (position / u128::from(self.count)) as u64
    }

    /// Returns the image of `number` under the first key of a stream.
    pub fn of(self, stream: Stream, number: u64) -> u64 {
        self.place(stream.at(0), number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_contains_each_number_once() {
        for count in [1, 2, 3, 5, 64, 100, 1000, 4097] {
            let permutation = Permutation::new(count);
            for key in [0, 1, u64::MAX] {
                let mut found: Vec<u64> = (0..count).map(|number| permutation.place(key, number)).collect();
                found.sort_unstable();
                assert_eq!(found, (0..count).collect::<Vec<_>>(), "{count}");
            }
        }
    }

    #[test]
    fn bits_are_spread_evenly() {
        let (permutation, stream) = (Permutation::new(1000), Stream::new(1, &["spread"]));
        let bits = (0..1000).map(|number| permutation.bits(stream, number, stream.at(number)));
        let mut parts: Vec<u64> = bits.map(|bits| crate::draw::below(bits, 1000)).collect();
        parts.sort_unstable();
        assert_eq!(parts, (0..1000).collect::<Vec<_>>());
    }

    #[test]
    fn the_largest_range_can_be_permuted() {
        let permutation = Permutation::new(u64::MAX);
        assert!(permutation.place(1, u64::MAX - 1) < u64::MAX);
    }
}
