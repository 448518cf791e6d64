//! Looks up names and OIDs, without regard to case.

use hashbrown::HashTable;

/// Maps ASCII names to numbers, without regard to case.
#[derive(Debug, Clone, Default)]
pub struct Names {
    table: HashTable<(Box<[u8]>, u32)>,
}

impl Names {
    /// Adds a name. Returns false if the name already has another number.
    pub fn insert(&mut self, name: &str, id: u32) -> bool {
        if let Some(known) = self.find(name.as_bytes()) {
            return known == id;
        }
        let entry = (name.as_bytes().into(), id);
        self.table.insert_unique(hash(name.as_bytes()), entry, |(name, _)| hash(name));
        true
    }

    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<u32> {
        let same = |(known, _): &(Box<[u8]>, u32)| known.eq_ignore_ascii_case(name);
        self.table.find(hash(name), same).map(|&(_, id)| id)
    }
}

/// Returns the same hash for names that differ only in the case of ASCII letters. Hashes eight bytes per step, because
/// a name is hashed for every line of every entry.
#[inline]
fn hash(name: &[u8]) -> u64 {
    const CASE: u64 = 0x2020_2020_2020_2020;
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = name.len() as u64;
    let mut chunks = name.chunks_exact(8);
    for chunk in &mut chunks {
        let word = <[u8; 8]>::try_from(chunk).map_or(0, u64::from_le_bytes);
        hash = (hash ^ (word | CASE)).wrapping_mul(FACTOR).rotate_left(29);
    }
    let tail = chunks.remainder().iter().fold(0, |tail, byte| tail << 8 | u64::from(byte | 0x20));
    let mixed = (hash ^ tail).wrapping_mul(FACTOR);
    mixed ^ mixed >> 32
}
