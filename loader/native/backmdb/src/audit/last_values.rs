//! The values that each attribute was last found right with. Most attributes of most entries have those of the entry
//! before (object classes, names of creators, times of a load), which then need no second look.

use codec::id2e::Attribute;

/// Longer ones are looked at each time: they are hardly ever the same.
const LONGEST: usize = 512;

/// One worker's memory.
#[derive(Debug, Default)]
pub struct LastValues {
    /// By the attribute's number: how it is stored, how many values it has, and these, each behind its length.
    by_number: Vec<Vec<u8>>,
    given: Vec<u8>,
}

impl LastValues {
    /// Are they those that the attribute was last right with? Else `is_right` is asked, and they are from now on, if so.
    pub fn are_right(&mut self, one: &Attribute<'_>, is_right: impl FnOnce() -> bool) -> bool {
        if !self.take(one) {
            return is_right();
        }
        let at = one.number as usize;
        if self.by_number.get(at).is_some_and(|last| *last == self.given) {
            return true;
        }
        if !is_right() {
            return false;
        }
        if self.by_number.len() <= at {
            self.by_number.resize_with(at + 1, Vec::new);
        }
        std::mem::swap(&mut self.by_number[at], &mut self.given);
        true
    }

    /// False where there is too much of them, or they are in id2v.
    fn take(&mut self, one: &Attribute<'_>) -> bool {
        let values = one.values.iter().chain(&one.normals);
        let size: usize = values.clone().map(|value| size_of::<usize>() + value.len()).sum();
        if one.apart || size > LONGEST {
            return false;
        }
        self.given.clear();
        self.given.extend([u8::from(one.sorted), u8::from(one.has_normals)]);
        self.given.extend(one.values.len().to_ne_bytes());
        for value in values {
            self.given.extend(value.len().to_ne_bytes());
            self.given.extend_from_slice(value);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one<'a>(number: u32, values: &[&'a [u8]], normals: &[&'a [u8]]) -> Attribute<'a> {
        let (values, normals) = (values.into(), normals.into());
        Attribute { number, count: 1, has_normals: true, values, normals, ..Attribute::default() }
    }

    #[test]
    fn the_same_values_are_looked_at_once() {
        let mut last = LastValues::default();
        assert!(last.are_right(&one(3, &[b"A"], &[b"a"]), || true));
        assert!(last.are_right(&one(3, &[b"A"], &[b"a"]), || panic!("looked at again")));
        for other in [
            one(3, &[b"A"], &[b"A"]),
            one(3, &[b"B"], &[b"a"]),
            one(4, &[b"A"], &[b"a"]),
            one(3, &[b"A", b"a"], &[]),
            one(3, &[], &[b"A", b"a"]),
            one(3, &[b"Aa"], &[b""]),
            Attribute { sorted: true, ..one(3, &[b"A"], &[b"a"]) },
        ] {
            assert!(!last.are_right(&other, || false), "{other:?}");
        }
        assert!(last.are_right(&one(3, &[b"A"], &[b"a"]), || false));
    }

    #[test]
    fn what_is_wrong_is_looked_at_each_time() {
        let mut last = LastValues::default();
        for _ in 0..2 {
            assert!(!last.are_right(&one(3, &[b"A"], &[b"b"]), || false));
        }
        let long = vec![b'a'; LONGEST];
        assert!(last.are_right(&one(3, &[&long], &[]), || true));
        assert!(!last.are_right(&one(3, &[&long], &[]), || false));
    }
}
