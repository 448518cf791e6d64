//! A posting as one number, so that the order of postings is the order of numbers.

use std::fmt::Debug;

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
pub(crate) trait Item: Copy + Ord + Send + Sync + Debug + Pod {
    const BITS: u32;

    fn key(self) -> Key;
    fn position(self) -> u32;
    fn same_key(self, other: Self) -> bool;

    fn minus(self, other: Self) -> Self;
    /// None on overflow.
    fn plus(self, other: Self) -> Option<Self>;
    fn xor(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn shift_right(self, bits: u32) -> Self;
    fn shift_left(self, bits: u32) -> Self;
    /// The lowest 64 bits.
    fn low(self) -> u64;
    fn leading_zeros(self) -> u32;
    fn from_low(low: u64) -> Self;
}

/// The width of a position.
pub(crate) const POSITION: u32 = u32::BITS;

pub(crate) fn pack(key: u32, position: u32) -> u64 {
    u64::from(key) << POSITION | u64::from(position)
}

pub(crate) fn pack_long(bits: u64, len: u8, position: u32) -> u128 {
    u128::from(bits) << 64 | u128::from(len) << POSITION | u128::from(position)
}

/// A posting with a key of four bytes, as an index of longer keys holds it.
pub(crate) fn widen(item: u64) -> u128 {
    let Key { bits, len } = item.key();
    pack_long(bits, len, item.position())
}

macro_rules! numeric {
    ($number:ty) => {
        const BITS: u32 = <$number>::BITS;

        #[inline]
        fn same_key(self, other: Self) -> bool {
            (self ^ other) >> POSITION == 0
        }
        #[inline]
        #[allow(clippy::cast_possible_truncation)] // the position is the low half
        fn position(self) -> u32 {
            self as u32
        }
        #[inline]
        fn minus(self, other: Self) -> Self {
            self.saturating_sub(other)
        }
        #[inline]
        fn plus(self, other: Self) -> Option<Self> {
            self.checked_add(other)
        }
        #[inline]
        fn xor(self, other: Self) -> Self {
            self ^ other
        }
        #[inline]
        fn or(self, other: Self) -> Self {
            self | other
        }
        #[inline]
        fn shift_right(self, bits: u32) -> Self {
            self >> bits
        }
        #[inline]
        fn shift_left(self, bits: u32) -> Self {
            self << bits
        }
        #[inline]
        #[allow(clippy::cast_possible_truncation, clippy::unnecessary_cast)] // as it says
        fn low(self) -> u64 {
            self as u64
        }
        #[inline]
        fn leading_zeros(self) -> u32 {
            <$number>::leading_zeros(self)
        }
        #[inline]
        fn from_low(low: u64) -> Self {
            Self::from(low)
        }
    };
}

impl Item for u64 {
    numeric!(u64);

    #[inline]
    fn key(self) -> Key {
        Key { bits: self >> POSITION << POSITION, len: 4 }
    }
}

impl Item for u128 {
    numeric!(u128);

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // takes the fields apart
    fn key(self) -> Key {
        Key { bits: (self >> 64) as u64, len: (self >> POSITION) as u8 }
    }
}
