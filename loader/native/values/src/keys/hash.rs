use super::Key;

/// The size of hashed keys: 4 bytes, or 8 with `index_hash64` (slapd.conf(5)).
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    Four,
    Eight,
}

/// The hash of the prefix that all keys of one index share (`libraries/liblutil/hash.c`): FNV-1 with 32 bits, or FNV-1a
/// with 64 bits.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Seed {
    width: Width,
    state: u64,
}

impl Seed {
    /// `prefix` is the attribute type's name as spelled in the schema, with any options. `pre` is empty for equality;
    /// `^`, `*` or `$` for the three kinds of substrings. `syntax_oid` is the attribute's syntax without a length,
    /// `rule_oid` the matching rule of the index type.
    pub fn new(width: Width, prefix: &str, pre: &str, syntax_oid: &str, rule_oid: &str) -> Self {
        let start = match width {
            Width::Four => 0x811C_9DC5,
            Width::Eight => 0xCBF2_9CE4_8422_2325,
        };
        let parts = [prefix, pre, syntax_oid, rule_oid];
        parts.iter().fold(Self { width, state: start }, |seed, part| seed.after(part.as_bytes()))
    }

    pub fn width(self) -> Width {
        self.width
    }

    /// Returns the key of a value, in either width.
    pub fn key(self, value: &[u8]) -> Key {
        match self.width {
            Width::Four => Key::new(&self.key32(value).to_be_bytes()),
            Width::Eight => Key::new(&self.key64(value).to_be_bytes()),
        }
    }

    /// Returns the four bytes of the key as a big-endian number, so that numbers have the same order as keys. Only for
    /// [`Width::Four`].
    #[inline]
    pub fn key32(self, value: &[u8]) -> u32 {
        self.state32().after(value).key()
    }

    /// Returns the eight bytes of the key as a big-endian number. Only for [`Width::Eight`].
    #[inline]
    pub fn key64(self, value: &[u8]) -> u64 {
        self.state64().after(value).key()
    }

    fn after(self, text: &[u8]) -> Self {
        let state = match self.width {
            Width::Four => u64::from(self.state32().after(text).0),
            Width::Eight => self.state64().after(text).0,
        };
        Self { state, ..self }
    }

    pub(super) fn state32(self) -> State32 {
        debug_assert_eq!(self.width, Width::Four);
        #[expect(clippy::cast_possible_truncation)] // the upper half is zero
        State32(self.state as u32)
    }

    pub(super) fn state64(self) -> State64 {
        debug_assert_eq!(self.width, Width::Eight);
        State64(self.state)
    }
}

/// A hash that is computed byte by byte.
pub(super) trait State: Copy {
    type Key;

    fn then(self, byte: u8) -> Self;

    /// Returns the key, in which the bytes of the hash are little-endian.
    fn key(self) -> Self::Key;

    #[inline]
    fn after(self, text: &[u8]) -> Self {
        text.iter().fold(self, |state, &byte| state.then(byte))
    }
}

#[derive(Copy, Clone)]
pub(super) struct State32(u32);

impl State for State32 {
    type Key = u32;

    #[inline]
    fn then(self, byte: u8) -> Self {
        Self(self.0.wrapping_mul(0x0100_0193) ^ u32::from(byte))
    }

    #[inline]
    fn key(self) -> u32 {
        self.0.swap_bytes()
    }
}

#[derive(Copy, Clone)]
pub(super) struct State64(u64);

impl State for State64 {
    type Key = u64;

    #[inline]
    fn then(self, byte: u8) -> Self {
        Self((self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
    }

    #[inline]
    fn key(self) -> u64 {
        self.0.swap_bytes()
    }
}
