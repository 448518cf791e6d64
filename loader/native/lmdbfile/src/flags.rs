//! Flags of a table (`mdb_dbi_open`), and the sort orders that follow from them.

use std::cmp::Ordering;

use bitflags::bitflags;

bitflags! {
    /// Flags of a table, with LMDB's numbers (lmdb.h).
    ///
    /// The flags for values include `DUPSORT`, because LMDB ignores them without it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Flags: u16 {
        /// Keys are compared from their last byte on.
        const REVERSEKEY = 0x02;
        /// A key may have many values, which are sorted.
        const DUPSORT = 0x04;
        /// Keys are integers in the machine's byte order.
        const INTEGERKEY = 0x08;
        /// All values have the same size.
        const DUPFIXED = 0x14;
        /// Values are integers in the machine's byte order.
        const INTEGERDUP = 0x24;
        /// Values are compared from their last byte on.
        const REVERSEDUP = 0x44;
        /// LMDB has further flags, and a damaged file may have any.
        const _ = !0;
    }
}

impl Flags {
    /// Each key has one value, and keys sort by their bytes.
    pub const NONE: Self = Self::empty();

    /// Returns the order of keys (`mdb_default_cmp`).
    pub const fn key_order(self) -> Order {
        if self.contains(Self::REVERSEKEY) {
            Order::Reversed
        } else if self.contains(Self::INTEGERKEY) {
            Order::Integer
        } else {
            Order::Bytes
        }
    }

    /// Returns the order of one key's values (`mdb_default_cmp`).
    pub const fn value_order(self) -> Order {
        if self.contains(Self::INTEGERDUP) {
            Order::Integer
        } else if self.contains(Self::REVERSEDUP) {
            Order::Reversed
        } else {
            Order::Bytes
        }
    }

    /// Returns the flags in the record of a key's tree of values (`mdb_cursor_put`).
    pub(crate) const fn of_values(self) -> Self {
        if !self.contains(Self::DUPFIXED) {
            return Self::NONE;
        }
        // The bit of DUPFIXED without that of DUPSORT.
        let fixed = Self::from_bits_retain(0x10);
        if self.contains(Self::INTEGERDUP) { fixed.union(Self::INTEGERKEY) } else { fixed }
    }
}

/// An order of keys or values.
#[derive(Debug, Clone, Copy, Default)]
pub enum Order {
    /// By bytes; a prefix sorts before a longer key.
    #[default]
    Bytes,
    /// By bytes from the last to the first.
    Reversed,
    /// As unsigned integers in the machine's byte order.
    Integer,
    /// By a function such as LMDB gets with `mdb_set_compare` or `mdb_set_dupsort`.
    Custom(fn(&[u8], &[u8]) -> Ordering),
}

impl Order {
    /// Returns whether both orders are the same. Functions are compared by address.
    pub(crate) fn is(self, other: Self) -> bool {
        match (self, other) {
            (Self::Custom(own), Self::Custom(other)) => std::ptr::fn_addr_eq(own, other),
            _ => std::mem::discriminant(&self) == std::mem::discriminant(&other),
        }
    }

    #[inline]
    pub fn compare(self, left: &[u8], right: &[u8]) -> Ordering {
        match self {
            Self::Bytes => left.cmp(right),
            Self::Integer => integers(left, right),
            Self::Reversed => left.iter().rev().cmp(right.iter().rev()),
            Self::Custom(compare) => compare(left, right),
        }
    }
}

#[inline]
fn integers(left: &[u8], right: &[u8]) -> Ordering {
    if let (Ok(left), Ok(right)) = (left.try_into(), right.try_into()) {
        return u64::from_ne_bytes(left).cmp(&u64::from_ne_bytes(right));
    }
    if cfg!(target_endian = "little") { left.iter().rev().cmp(right.iter().rev()) } else { left.cmp(right) }
}
