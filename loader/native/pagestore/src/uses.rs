//! Which pages of packs are used: a bit for each.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustc_hash::FxHashMap;

use crate::assembly::Assembly;
use crate::page::Place;

#[derive(Debug, Default)]
pub struct Uses(FxHashMap<u32, Vec<AtomicU64>>);

impl Uses {
    /// None yet.
    pub fn of(packs: &Assembly) -> Self {
        let words = |pages: u32| (0..pages.div_ceil(u64::BITS)).map(|_| AtomicU64::new(0));
        Self(packs.packs().map(|(number, pack)| (number, words(pack.pages()).collect())).collect())
    }

    /// Whether it was not used before. A page of another pack is not counted.
    pub fn add(&self, place: Place) -> bool {
        let word = self.0.get(&place.pack).and_then(|words| words.get(place.page as usize / 64));
        let bit = 1 << (place.page % 64);
        word.is_some_and(|word| word.fetch_or(bit, Relaxed) & bit == 0)
    }

    /// How many pages of each pack.
    pub fn counts(&self) -> Vec<(u32, u64)> {
        let count = |words: &Vec<AtomicU64>| {
            words.iter().map(|word| u64::from(word.load(Relaxed).count_ones())).sum()
        };
        self.0.iter().map(|(&number, words)| (number, count(words))).collect()
    }
}
