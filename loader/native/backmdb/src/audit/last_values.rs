//! Caches the last valid values of each attribute. In most entries most attributes have the values of the previous
//! entry (object classes, creators' names, times of a load), which need no second check.

use codec::id2e::Stored;

/// Longer values are checked each time: they hardly ever repeat. In bytes.
const LONGEST: usize = 512;

/// Values are cached after 1, 2, 4, ... misses in a row and after each multiple of this: caching values that never come
/// again costs more than checking them.
const MISSES: u32 = 64;

/// One worker's cache.
#[derive(Debug, Default)]
pub struct LastValues {
    by_number: Vec<LastValue>,
    /// The flags of the cached object classes.
    pub flags: u32,
    /// The values for an index of the cached object classes.
    pub class_names: Vec<Vec<u8>>,
    /// The attribute numbers of the last entry in which they were valid.
    pub numbers: Vec<u32>,
}

/// How an attribute was stored, and the number of misses since. `pieces` is empty until values are cached.
#[derive(Debug, Default)]
struct LastValue {
    sorted: bool,
    has_normals: bool,
    pieces: Vec<u8>,
    misses: u32,
}

impl LastValues {
    /// Returns true if the attribute has the values that were last valid.
    pub fn has(&mut self, one: &Stored<'_>) -> bool {
        let Some(last) = self.by_number.get_mut(one.number as usize) else { return false };
        let mut rest = &last.pieces[..];
        let is_same = (last.sorted, last.has_normals) == (one.sorted, one.has_normals)
            && !one.apart
            && one.pieces().into_iter().all(|piece| match rest.strip_prefix(piece) {
                Some(more) => {
                    rest = more;
                    true
                }
                None => false,
            })
            && rest.is_empty()
            && !last.pieces.is_empty();
        last.misses = if is_same { 0 } else { last.misses.saturating_add(1) };
        is_same
    }

    /// Caches valid values; returns false if they are too long, in id2v, or not due after many misses.
    pub fn keep(&mut self, one: &Stored<'_>) -> bool {
        let (at, pieces) = (one.number as usize, one.pieces());
        if one.apart || pieces.iter().map(|piece| piece.len()).sum::<usize>() > LONGEST {
            return false;
        }
        if self.by_number.len() <= at {
            self.by_number.resize_with(at + 1, LastValue::default);
        }
        let last = &mut self.by_number[at];
        let is_due = last.misses.is_power_of_two() || last.misses % MISSES == 0;
        if is_due {
            (last.sorted, last.has_normals) = (one.sorted, one.has_normals);
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
