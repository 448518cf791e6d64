//! A posting as one number, so that numbers sort like postings; and a radix sort from the most significant digit on.
//! For hashed keys with ascending positions one digit nearly suffices.

use std::fmt::Debug;
use std::ops::{BitOr, BitXor, Shl, Shr, Sub};

use bytemuck::Pod;

/// A key of an index as [`Visitor`](crate::Visitor) sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    /// The bytes of the key, left-aligned, as a big-endian number.
    pub bits: u64,
    /// Its length in bytes.
    pub len: u8,
}

/// `u64`: key of four bytes, position. `u128`: key of up to eight bytes, its length, position.
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
    #[allow(clippy::cast_possible_truncation)] // the position is the low half
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

impl Item for u64 {
    const BITS: u32 = Self::BITS;

    #[inline]
    fn key(self) -> Key {
        Key { bits: self >> POSITION << POSITION, len: 4 }
    }
    #[inline]
    fn plus(self, other: Self) -> Option<Self> {
        self.checked_add(other)
    }
    #[inline]
    fn low(self) -> u64 {
        self
    }
    #[inline]
    fn leading_zeros(self) -> u32 {
        self.leading_zeros()
    }
}

#[allow(clippy::cast_possible_truncation)] // takes the fields apart
impl Item for u128 {
    const BITS: u32 = Self::BITS;

    #[inline]
    fn key(self) -> Key {
        Key { bits: (self >> 64) as u64, len: (self >> POSITION) as u8 }
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

/// Below this number of items, comparing is faster than counting digits.
const FEW: usize = 256;
/// Width in bits of the largest digit whose counters stay in the fastest cache.
const WIDEST: u32 = 11;

/// Sorts `items`; `spare` is overwritten.
pub(crate) fn sort<I: Item>(items: &mut Vec<I>, spare: &mut Vec<I>) {
    spare.resize(items.len(), I::zeroed());
    if !sort_few(items) {
        sort_to(items, spare);
        std::mem::swap(items, spare);
    }
}

/// Sorts `items` if they are few, and returns whether they are sorted now.
fn sort_few<I: Item>(items: &mut [I]) -> bool {
    if items.len() < FEW {
        items.sort_unstable();
        return true;
    }
    items.is_sorted()
}

/// Sorts `items` into `sorted`. The recursion is as deep as an item has digits.
fn sort_to<I: Item>(items: &mut [I], sorted: &mut [I]) {
    let ends = by_digit(items, sorted);
    let mut start = 0;
    for end in ends {
        let (slot, spare) = (&mut sorted[start..end], &mut items[start..end]);
        if slot.len() > 1 && !sort_few(slot) {
            sort_to(slot, spare);
            slot.copy_from_slice(spare);
        }
        start = end;
    }
}

/// Copies `items` to `sorted` in the order of the first digit in which they differ, and otherwise
/// in their old order. Returns the end of each digit's items.
#[allow(clippy::cast_possible_truncation)] // digits are small
fn by_digit<I: Item>(items: &[I], sorted: &mut [I]) -> Vec<usize> {
    let first = items[0];
    let differing = items.iter().fold(I::zeroed(), |bits, item| bits | (*item ^ first));
    let top = I::BITS - differing.leading_zeros();
    let digits = items.len().ilog2().min(WIDEST);
    // Positions of different keys are never compared, so a digit is of the key or the position.
    let least = if top > POSITION { POSITION } else { 0 };
    let bit = top.saturating_sub(digits).max(least);
    let mask = (1_usize << digits) - 1;
    let digit = |item: I| (item >> bit).low() as usize & mask;

    let mut next = vec![0_usize; mask + 1];
    for &item in items {
        next[digit(item)] += 1;
    }
    let mut start = 0;
    for place in &mut next {
        start += std::mem::replace(place, start);
    }
    for &item in items {
        let place = &mut next[digit(item)];
        sorted[*place] = item;
        *place += 1;
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
