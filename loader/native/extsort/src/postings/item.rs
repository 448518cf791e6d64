//! A posting as one number, so that the order of postings is the order of numbers.

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
    /// None on overflow.
    fn plus(self, other: Self) -> Option<Self>;
    /// The lowest 64 bits.
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
    /// 0 where `other` is more.
    #[inline]
    fn minus(self, other: Self) -> Self {
        self.max(other) - other
    }
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
