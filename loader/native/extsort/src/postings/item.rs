//! Encodes postings as numbers in the order of the postings, and sorts the numbers by radix from the most significant
//! digit on. For hashed keys with ascending positions, one digit nearly suffices.

use std::fmt::Debug;
use std::ops::{BitOr, BitXor, Shl, Shr, Sub};

use bytemuck::Pod;

/// A key of an index, in the form that [`Visitor`](crate::Visitor) gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    /// The bytes of the key, left-aligned, as a big-endian number.
    pub bits: u64,
    /// Length in bytes.
    pub len: u8,
}

/// A posting as a number. From the highest bits on, a `u64` has a key of four bytes and the position; a `u128` has a
/// key of up to eight bytes, its length and the position.
pub(crate) trait Item:
    Default
    + Ord
    + Send
    + Sync
    + Debug
    + Pod
    + From<u64>
    + Sub<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + Shl<u32, Output = Self>
    + Shr<u32, Output = Self>
{
    const BITS: u32;

    fn key(self) -> Key;
    /// Returns the sum; `None` on overflow.
    fn plus(self, other: Self) -> Option<Self>;
    /// Returns the lowest 64 bits.
    fn low(self) -> u64;
    fn leading_zeros(self) -> u32;

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "the position is in the lowest bits")]
    fn position(self) -> u32 {
        self.low() as u32
    }
    #[inline]
    fn same_key(self, other: Self) -> bool {
        (self ^ other) >> POSITION == Self::zeroed()
    }
    /// Returns the difference, or 0 if `other` is greater.
    #[inline]
    fn minus(self, other: Self) -> Self {
        self.max(other) - other
    }
}

/// Width of a position in bits.
pub(crate) const POSITION: u32 = u32::BITS;

pub(crate) fn pack(key: u32, position: u32) -> u64 {
    u64::from(key) << POSITION | u64::from(position)
}

pub(crate) fn pack_long(bits: u64, len: u8, position: u32) -> u128 {
    u128::from(bits) << 64 | u128::from(len) << POSITION | u128::from(position)
}

/// Converts a posting with a key of four bytes for an index of longer keys.
pub(crate) fn widen(item: u64) -> u128 {
    let Key { bits, len } = item.key();
    pack_long(bits, len, item.position())
}

macro_rules! item {
    ($number:ty, |$item:ident| $key:expr) => {
        #[allow(clippy::cast_possible_truncation, clippy::unnecessary_cast, reason = "splits the number")]
        impl Item for $number {
            const BITS: u32 = Self::BITS;

            #[inline]
            fn key(self) -> Key {
                let $item = self;
                $key
            }
            #[inline]
            fn plus(self, other: Self) -> Option<Self> {
                self.checked_add(other)
            }
            #[inline]
            fn low(self) -> u64 {
                self as u64
            }
            #[inline]
            fn leading_zeros(self) -> u32 {
                self.leading_zeros()
            }
        }
    };
}

item!(u64, |item| Key { bits: item >> POSITION << POSITION, len: 4 });
item!(u128, |item| Key { bits: (item >> 64) as u64, len: (item >> POSITION) as u8 });

/// Fewer items than this are sorted by comparison, which is faster for so few than sorting by digits.
const FEW: usize = 256;
/// Maximum width of a digit in bits, so that the counters of its values stay in the fastest cache.
const WIDEST: u32 = 11;

/// Sorts `items`. `spare` is a buffer that is overwritten.
pub(crate) fn sort<I: Item>(items: &mut Vec<I>, spare: &mut Vec<I>) {
    spare.resize(items.len(), I::zeroed());
    if !sort_few(items) {
        sort_to(items, spare);
        std::mem::swap(items, spare);
    }
}

/// Sorts `items` if they are few, and returns whether `items` are sorted now.
fn sort_few<I: Item>(items: &mut [I]) -> bool {
    if items.len() < FEW {
        items.sort_unstable();
        return true;
    }
    items.is_sorted()
}

/// Sorts `items` into `sorted`. The depth of the recursion is at most the number of digits of an item.
fn sort_to<I: Item>(items: &mut [I], sorted: &mut [I]) {
    let ends = by_digit(items, sorted);
    let mut start = 0;
    for end in ends {
        let (same_digit, spare) = (&mut sorted[start..end], &mut items[start..end]);
        if same_digit.len() > 1 && !sort_few(same_digit) {
            sort_to(same_digit, spare);
            same_digit.copy_from_slice(spare);
        }
        start = end;
    }
}

/// Copies `items` to `sorted`, ordered by the first digit in which items differ; items with the same digit keep their
/// order. Returns the end of each digit's items.
#[allow(clippy::cast_possible_truncation, reason = "digits are small")]
fn by_digit<I: Item>(items: &[I], sorted: &mut [I]) -> Vec<usize> {
    let first = items[0];
    let differing = items.iter().fold(I::zeroed(), |bits, item| bits | (*item ^ first));
    let top = I::BITS - differing.leading_zeros();
    let digits = items.len().ilog2().min(WIDEST);
    // A digit belongs either to the key or to the position, because positions of different keys are never compared.
    let least = if top > POSITION { POSITION } else { 0 };
    let bit = top.saturating_sub(digits).max(least);
    let mask = (1_usize << digits) - 1;
    let digit = |item: I| (item >> bit).low() as usize & mask;

    let mut next = vec![0_usize; mask + 1];
    for &item in items {
        next[digit(item)] += 1;
    }
    let mut start = 0;
    for first in &mut next {
        start += std::mem::replace(first, start);
    }
    for &item in items {
        let at = &mut next[digit(item)];
        sorted[*at] = item;
        *at += 1;
    }
    next
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::postings::item::{pack, pack_long};

    /// Generates numbers that differ only in some bits.
    fn number() -> impl Strategy<Value = Vec<u32>> {
        let mask = prop_oneof![Just(0), Just(1), Just(0xff), Just(0x8000_0000), any::<u32>()];
        (mask, prop::collection::vec(any::<u32>(), 3000))
            .prop_map(|(mask, numbers)| numbers.into_iter().map(|number| number & mask).collect())
    }

    fn check<I: Item>(mut items: Vec<I>) {
        let (mut expected, mut spare) = (items.clone(), vec![items[0]; 5]);
        expected.sort_unstable();
        sort(&mut items, &mut spare);
        assert_eq!(items, expected);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(50))]

        #[test]
        fn sorts_as_the_standard_library_does(keys in number(), positions in number(), len in 1..3000_usize) {
            let pairs = || keys.iter().zip(&positions).take(len);
            check(pairs().map(|(&key, &position)| pack(key, position)).collect());
            check(pairs().map(|(&key, &position)| pack_long(u64::from(key) << 20, 8, position)).collect());
        }
    }
}
