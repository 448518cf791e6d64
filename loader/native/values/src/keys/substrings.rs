use super::hash::{Seed, State};

/// Lengths, in bytes, of the pieces of values that substring indexes hash (slapd.conf(5)). A piece may end within a
/// UTF-8 sequence.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Substrings {
    /// `index_substr_if_minlen`
    pub min: usize,
    /// `index_substr_if_maxlen`
    pub max: usize,
    /// `index_substr_any_len`, at least 1
    pub any: usize,
}

impl Default for Substrings {
    fn default() -> Self {
        Self { min: 2, max: 4, any: 4 }
    }
}

impl Substrings {
    /// Calls `emit` with the key ([`Seed::key32`]) of each piece of the value, in slapd's order. A repeated piece has a
    /// repeated key. `seeds` are for initial, any and final.
    #[inline]
    pub fn each(&self, seeds: &[Seed; 3], value: &[u8], emit: impl FnMut(u32)) {
        self.emit_all(seeds.map(Seed::state32), value, emit);
    }

    /// Does the same as [`Self::each`] with [`Seed::key64`].
    #[inline]
    pub fn each64(&self, seeds: &[Seed; 3], value: &[u8], emit: impl FnMut(u64)) {
        self.emit_all(seeds.map(Seed::state64), value, emit);
    }

    /// Returns the keys that [`Self::each`] computes with the seed for any. The iterator has an exact size hint.
    #[inline]
    pub fn any_keys(&self, seed: Seed, value: &[u8]) -> impl Iterator<Item = u32> {
        self.any_of(seed.state32(), value)
    }

    /// Calls `emit` for each length of a piece, with the keys that [`Self::each`] computes for initial and final.
    #[inline]
    pub fn each_end(&self, [initial, _, last]: &[Seed; 3], value: &[u8], emit: impl FnMut([u32; 2])) {
        self.emit_ends([initial.state32(), last.state32()], value, emit);
    }

    #[inline]
    fn emit_all<S: State>(&self, states: [S; 3], value: &[u8], mut emit: impl FnMut(S::Key)) {
        let [initial, any, last] = states;
        self.any_of(any, value).for_each(&mut emit);
        self.emit_ends([initial, last], value, |keys| keys.into_iter().for_each(&mut emit));
    }

    #[inline]
    fn any_of<S: State>(&self, any: S, value: &[u8]) -> impl Iterator<Item = S::Key> {
        value.windows(self.any.max(1)).map(move |piece| match *piece {
            // The compiler generates a faster loop for a constant length.
            [a, b, c, d] => any.then(a).then(b).then(c).then(d).key(),
            _ => any.after(piece).key(),
        })
    }

    #[inline]
    fn emit_ends<S: State>(&self, [initial, last]: [S; 2], value: &[u8], mut emit: impl FnMut([S::Key; 2])) {
        let Some(start) = value.get(..self.min) else { return };
        let mut initial = initial.after(start);
        for length in self.min..=self.max.min(value.len()) {
            emit([initial.key(), last.after(&value[value.len() - length..]).key()]);
            initial = initial.after(value.get(length..=length).unwrap_or_default());
        }
    }
}
