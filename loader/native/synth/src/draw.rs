//! Random numbers without state: a seed, names and a number decide 64 bits.
//!
//! The mixing function is splitmix64 (Steele, Lea, Flood 2014): a few multiplications, the same on every machine.

use xxhash_rust::xxh3::Xxh3;

const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// The random draws for one position in a template. They are independent of those for other positions and seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream(u64);

impl Stream {
    pub fn new(seed: i64, names: &[&str]) -> Self {
        let mut hash = Xxh3::with_seed(u64::from_ne_bytes(seed.to_ne_bytes()));
        for name in names {
            hash.update(&(name.len() as u64).to_le_bytes());
            hash.update(name.as_bytes());
        }
        Self(hash.digest())
    }

    /// Returns another stream, which is derived from this stream.
    #[must_use]
    pub const fn part(self, number: u64) -> Self {
        Self(again(self.0, number + 1))
    }

    /// Returns 64 random bits for this number.
    pub const fn at(self, number: u64) -> u64 {
        mix(self.0.wrapping_add(number.wrapping_mul(GAMMA)))
    }
}

/// Returns further random bits, which are derived from the bits of a draw. `turn` begins at 1.
pub const fn again(bits: u64, turn: u64) -> u64 {
    mix(bits.wrapping_add(turn.wrapping_mul(GAMMA)))
}

const fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

/// Returns a number below `count`, or 0 if `count` is 0.
#[allow(clippy::cast_possible_truncation, reason = "the upper half of a product of 128 bits")]
pub const fn below(bits: u64, count: u64) -> u64 {
    ((bits as u128 * count as u128) >> 64) as u64
}

/// Returns a number from 0 up to, but not including, 1.
#[allow(clippy::cast_precision_loss, reason = "53 bits are what an f64 holds")]
pub const fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_names_and_seeds_give_other_streams() {
        let names = [&["ab", "c"][..], &["a", "bc"], &["abc"], &["abc", ""]];
        let mut found: Vec<u64> = (0..20).flat_map(|seed| names.map(|names| Stream::new(seed, names).at(7))).collect();
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), 80);
    }

    #[test]
    fn unit_and_below_reach_but_never_pass_their_bounds() {
        assert_eq!((below(0, 7), below(u64::MAX, 7), below(u64::MAX, 0)), (0, 6, 0));
        assert!(unit(u64::MAX) < 1.0);
        assert!(unit(0) == 0.0);
    }
}
