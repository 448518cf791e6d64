use super::hash::{Seed, State};

/// Lengths of the pieces of a value that are hashed for substring indexes, in bytes; UTF-8
/// sequences are cut (slapd.conf(5)).
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
    /// Calls `emit` with the key of each piece of the value, as [`Seed::key32`], in slapd's order.
    /// The seeds are those of initial, any and final. A key comes as often as its piece occurs.
    #[inline]
    pub fn each(&self, seeds: &[Seed; 3], value: &[u8], emit: impl FnMut(u32)) {
        self.emit_all(seeds.map(Seed::state32), value, emit);
    }

    /// The same with [`Seed::key64`].
    #[inline]
    pub fn each64(&self, seeds: &[Seed; 3], value: &[u8], emit: impl FnMut(u64)) {
        self.emit_all(seeds.map(Seed::state64), value, emit);
    }

    #[inline]
    fn emit_all<S: State>(&self, states: [S; 3], value: &[u8], mut emit: impl FnMut(S::Key)) {
        let [initial, any, last] = states;
        // A length known to the compiler makes for a tight loop.
        if self.any == 4 {
            value.windows(4).for_each(|piece| {
                let &[a, b, c, d] = piece else { return };
                emit(any.then(a).then(b).then(c).then(d).key());
            });
        } else {
            value.windows(self.any.max(1)).for_each(|piece| emit(any.after(piece).key()));
        }
        for length in self.min..=self.max.min(value.len()) {
            emit(initial.after(&value[..length]).key());
            emit(last.after(&value[value.len() - length..]).key());
        }
    }
}
