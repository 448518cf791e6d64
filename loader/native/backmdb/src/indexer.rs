//! Generates the index keys of an attribute's values for one index definition.

use values::InvalidValue;
use values::keys::{self, Key, Seed};

use crate::Settings;

/// One index definition, applied to the values of one column.
#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "each is a word of the configuration")]
pub struct Indexer {
    pub table: usize,
    /// The table has keys that do not have four bytes, so all keys are passed to the sorter with their length.
    pub long: bool,
    /// `index_hash64`: hashes have eight bytes.
    pub wide: bool,
    pub presence: bool,
    pub equality: Option<Equality>,
    pub approx: bool,
    /// The seeds of initial, any and final keys.
    pub substrings: Option<[Seed; 3]>,
}

#[derive(Debug, Clone, Copy)]
pub enum Equality {
    Hash(Seed),
    /// A hash of the name of the class and of each superior class.
    ObjectClass(Seed),
    /// A hash of the value without the bit string at its end.
    NameUid(Seed),
    /// The number of bytes of a key.
    Integer(usize),
    Time,
    /// Times as in slapd 2.4.
    OldTime,
}

/// Receives index keys.
pub trait Keys {
    fn short(&mut self, table: usize, key: u32);
    /// Receives several short keys.
    fn shorts(&mut self, table: usize, keys: impl Iterator<Item = u32>) {
        keys.for_each(|key| self.short(table, key));
    }
    fn long(&mut self, table: usize, key: Key);
}

/// Keys of one entry, each with the index of its table.
#[derive(Debug, Default)]
pub struct IndexKeys(pub Vec<(usize, Key)>);

impl Keys for IndexKeys {
    fn short(&mut self, table: usize, key: u32) {
        self.0.push((table, Key::new(&key.to_be_bytes())));
    }

    fn long(&mut self, table: usize, key: Key) {
        self.0.push((table, key));
    }
}

/// Returns the bits of a key of four bytes.
#[allow(clippy::cast_possible_truncation, reason = "the first four bytes are the upper half")]
pub fn short(key: Key) -> u32 {
    (key.bits() >> 32) as u32
}

impl Indexer {
    /// Returns true if the keys follow from the names of object classes.
    pub const fn of_classes(&self) -> bool {
        matches!(self.equality, Some(Equality::ObjectClass(_)))
    }

    fn hash(&self, seed: Seed, value: &[u8], keys: &mut impl Keys) {
        match (self.wide, self.long) {
            (false, false) => keys.short(self.table, seed.key32(value)),
            (false, true) => keys.long(self.table, Key::new(&seed.key32(value).to_be_bytes())),
            (true, _) => keys.long(self.table, Key::new(&seed.key64(value).to_be_bytes())),
        }
    }

    /// Generates the keys of all values of one attribute, method by method like slapd. `classes`: if the values are
    /// object classes, their names and the names of all their superiors.
    pub fn each<'v>(
        &self,
        settings: &Settings,
        values: impl Iterator<Item = &'v [u8]> + Clone,
        classes: &[Vec<u8>],
        keys: &mut impl Keys,
    ) -> std::result::Result<(), InvalidValue> {
        if self.presence {
            self.presence_key(keys);
        }
        if let Some(equality) = self.equality {
            self.equality_keys(equality, values.clone(), classes, keys)?;
        }
        if self.approx {
            for value in values.clone() {
                keys::phonetic(value, |key| keys.long(self.table, key))?;
            }
        }
        if let Some(seeds) = &self.substrings {
            for value in values {
                self.substring_keys(seeds, settings, value, keys);
            }
        }
        Ok(())
    }

    fn presence_key(&self, keys: &mut impl Keys) {
        if self.long { keys.long(self.table, Key::new(&[0; 4])) } else { keys.short(self.table, 0) }
    }

    fn equality_keys<'v>(
        &self,
        equality: Equality,
        values: impl Iterator<Item = &'v [u8]>,
        classes: &[Vec<u8>],
        keys: &mut impl Keys,
    ) -> std::result::Result<(), InvalidValue> {
        match equality {
            Equality::Hash(seed) => values.for_each(|value| self.hash(seed, value, keys)),
            Equality::NameUid(seed) => {
                values.for_each(|value| self.hash(seed, keys::name_uid_part(value), keys));
            }
            Equality::ObjectClass(seed) => {
                for class in classes {
                    self.hash(seed, class, keys);
                }
            }
            Equality::OldTime => {
                values.filter_map(keys::time_of_2_4).for_each(|key| keys.long(self.table, key));
            }
            Equality::Time => {
                values.filter_map(keys::time).for_each(|key| keys.long(self.table, key));
            }
            Equality::Integer(length) => {
                for value in values {
                    let key = keys::integer(value, length)?;
                    if self.long {
                        keys.long(self.table, key);
                    } else {
                        keys.short(self.table, short(key));
                    }
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn substring_keys(&self, seeds: &[Seed; 3], settings: &Settings, value: &[u8], keys: &mut impl Keys) {
        let table = self.table;
        match (self.wide, self.long) {
            (false, false) => {
                keys.shorts(table, settings.substrings.any_keys(seeds[1], value));
                settings.substrings.each_end(seeds, value, |ends| keys.shorts(table, ends.into_iter()));
            }
            (false, true) => {
                settings.substrings.each(seeds, value, |key| keys.long(table, Key::new(&key.to_be_bytes())));
            }
            (true, _) => settings.substrings.each64(seeds, value, |key| keys.long(table, Key::new(&key.to_be_bytes()))),
        }
    }
}
