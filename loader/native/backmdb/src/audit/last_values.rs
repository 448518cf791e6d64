//! Caches the last valid values of each attribute. Many attributes have the same values in consecutive entries (object
//! classes, creators' names, times of a load), so they are checked once.

use codec::id2e::Stored;

/// Maximum number of bytes of an attribute's cached values. Longer values rarely repeat, and are checked each time.
const LONGEST: usize = 512;

/// Values are cached after 1, 2, 4, ... misses in a row, and after each multiple of `MISSES`: caching values that never
/// repeat costs more than checking them.
const MISSES: u32 = 64;

/// One worker's cache.
#[derive(Debug, Default)]
pub struct LastValues {
    by_number: Vec<LastValue>,
    /// The flags of the cached object classes.
    pub flags: u32,
    /// The names of the cached object classes and of their superiors, for index keys.
    pub class_names: Vec<Vec<u8>>,
    /// The attribute numbers of the last entry; empty if one of them was invalid.
    pub numbers: Vec<u32>,
    /// Memory for a normal form, used again.
    pub buffer: Vec<u8>,
}

/// The cached values of one attribute, and how they were stored.
#[derive(Debug, Default)]
struct LastValue {
    sorted: bool,
    has_normals: bool,
    /// The bytes of [`Stored::pieces`]; empty until values are cached.
    pieces: Vec<u8>,
    /// Number of misses in a row.
    misses: u32,
}

impl LastValues {
    /// Returns true if the attribute has the cached values.
    pub fn has(&mut self, stored: &Stored<'_>) -> bool {
        let Some(last) = self.by_number.get_mut(stored.number as usize) else { return false };
        let is_same = (last.sorted, last.has_normals) == (stored.sorted, stored.has_normals)
            && !stored.apart
            && !last.pieces.is_empty()
            && stored
                .pieces()
                .into_iter()
                .try_fold(&last.pieces[..], |rest, piece| rest.strip_prefix(piece))
                .is_some_and(<[u8]>::is_empty);
        last.misses = if is_same { 0 } else { last.misses.saturating_add(1) };
        is_same
    }

    /// Caches valid values. Returns false, and caches nothing, if the values are too long, if they are in id2v, or if,
    /// after so many misses, caching is not due (see `MISSES`).
    pub fn keep(&mut self, stored: &Stored<'_>) -> bool {
        let (at, pieces) = (stored.number as usize, stored.pieces());
        if stored.apart || pieces.iter().map(|piece| piece.len()).sum::<usize>() > LONGEST {
            return false;
        }
        if self.by_number.len() <= at {
            self.by_number.resize_with(at + 1, LastValue::default);
        }
        let last = &mut self.by_number[at];
        let is_due = last.misses.is_power_of_two() || last.misses % MISSES == 0;
        if is_due {
            (last.sorted, last.has_normals) = (stored.sorted, stored.has_normals);
            last.pieces.clear();
            for piece in pieces {
                last.pieces.extend_from_slice(piece);
            }
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use codec::id2e::{self, Attribute, Parts, StoredEntry};

    use super::*;

    fn one<'a>(number: u32, values: &[&'a [u8]], normals: &[&'a [u8]]) -> Attribute<'a> {
        let count = u32::try_from(values.len()).unwrap();
        let (has_normals, values, normals) = (!normals.is_empty(), values.into(), normals.into());
        Attribute { number, count, has_normals, values, normals, ..Attribute::default() }
    }

    fn has(last: &mut LastValues, one: Attribute<'_>, keep: bool) -> bool {
        let blob = id2e::write(&Parts { flags: 0, attributes: vec![one] });
        let entry = StoredEntry::read_whole(&blob).unwrap();
        let [stored] = &entry.attributes[..] else { panic!("one attribute") };
        let has = last.has(stored);
        if keep {
            last.keep(stored);
        }
        has
    }

    #[test]
    fn the_same_values_are_checked_once() {
        let mut last = LastValues::default();
        assert!(!has(&mut last, one(3, &[b"A"], &[b"a"]), true));
        assert!(has(&mut last, one(3, &[b"A"], &[b"a"]), false));
        for other in [
            one(3, &[b"A"], &[b"A"]),
            one(3, &[b"B"], &[b"a"]),
            one(4, &[b"A"], &[b"a"]),
            one(3, &[b"A", b"a"], &[]),
            one(3, &[b"Aa"], &[b""]),
            Attribute { sorted: true, ..one(3, &[b"A"], &[b"a"]) },
            Attribute { apart: true, count: 1, ..one(3, &[], &[]) },
        ] {
            let shown = format!("{other:?}");
            assert!(!has(&mut last, other, false), "{shown}");
        }
        assert!(has(&mut last, one(3, &[b"A"], &[b"a"]), false));
    }

    #[test]
    fn long_or_unrepeated_values_are_not_cached() {
        let (mut last, long) = (LastValues::default(), vec![b'a'; LONGEST]);
        for _ in 0..2 {
            assert!(!has(&mut last, one(3, &[&long], &[]), true));
        }
        let mut kept = 0;
        for number in 0..1000u32 {
            let value = number.to_be_bytes();
            assert!(!has(&mut last, one(3, &[&value], &[]), true));
            kept += u32::from(last.by_number[3].pieces.ends_with(&[value[3], 0]));
        }
        assert!((15..30).contains(&kept), "{kept}");
        for hit in [false, true] {
            last.by_number[3].misses = 63;
            assert_eq!(has(&mut last, one(3, &[b"again"], &[]), true), hit);
        }
    }
}
