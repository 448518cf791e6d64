//! Hashes that were met twice, found in little memory.

/// Which hashes may have been seen twice: all that were, and few besides. So hardly any are left to be
/// sorted. Memory: 4 to 8 bytes a hash.
pub(super) struct PossibleDuplicates {
    /// For each value of the upper bits of a hash: seen, and seen again.
    bits: Vec<[u64; 2]>,
    shift: u32,
}

impl PossibleDuplicates {
    pub(super) fn new(hashes: usize) -> Self {
        let words = (hashes / 4).next_power_of_two();
        Self { bits: vec![[0; 2]; words], shift: u64::BITS - 6 - words.ilog2() }
    }

    #[inline]
    pub(super) fn see(&mut self, hash: u128) {
        let (word, bit) = self.place(hash);
        let [seen, again] = &mut self.bits[word];
        *again |= *seen & bit;
        *seen |= bit;
    }

    #[inline]
    pub(super) fn again(&self, hash: u128) -> bool {
        let (word, bit) = self.place(hash);
        self.bits[word][1] & bit != 0
    }

    #[allow(clippy::cast_possible_truncation, reason = "it is below the number of words")]
    fn place(&self, hash: u128) -> (usize, u64) {
        let place = upper(hash) >> self.shift;
        ((place >> 6) as usize, 1 << (place & 63))
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the upper half fits")]
fn upper(number: u128) -> u64 {
    (number >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_met_twice_is_among_few() {
        let rng = &mut fastrand::Rng::with_seed(1);
        for size in [1, 3, 4, 1000, 100_000] {
            let hashes: Vec<u128> = (0..size).map(|_| rng.u128(..)).collect();
            let twice = &hashes[..size / 10];
            let mut met = PossibleDuplicates::new(size + twice.len());
            hashes.iter().chain(twice).for_each(|&hash| met.see(hash));
            assert!(twice.iter().all(|&hash| met.again(hash)));
            let others = hashes[size / 10..].iter().filter(|&&hash| met.again(hash)).count();
            // Of a handful any number may meet by chance.
            assert!(size < 1000 || others <= size / 4, "{others} of {size}");
        }
    }
}
