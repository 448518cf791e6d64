//! Normal forms of values that come again and again: millions of entries have the same creatorsName and objectClass.

/// Lines of an entry whose values are kept, and the longest value.
const LINES: usize = 256;
const LONGEST: usize = 128;

/// The last value of each line of an entry, and its normal form. Entries often are alike, so that a line that a column
/// has several of, such as objectClass, has its own.
#[derive(Debug, Default)]
pub struct NormalFormCache(Vec<LastValue>);

#[derive(Debug, Default)]
pub struct LastValue {
    column: usize,
    value: Vec<u8>,
    /// `None` if values of the column are stored without one.
    pub normal: Option<Vec<u8>>,
}

impl NormalFormCache {
    /// The last value in that place, if it was this one of that column.
    #[inline]
    pub fn find(&self, place: usize, column: usize, value: &[u8]) -> Option<&LastValue> {
        let last = self.0.get(place)?;
        (last.column == column && last.value == value && !value.is_empty()).then_some(last)
    }

    #[inline]
    pub fn keep(&mut self, place: usize, column: usize, value: &[u8], normal: Option<&[u8]>) {
        if place >= LINES || value.len() > LONGEST {
            return;
        }
        if self.0.len() <= place {
            self.0.resize_with(place + 1, LastValue::default);
        }
        let last = &mut self.0[place];
        last.column = column;
        last.value.clear();
        last.value.extend_from_slice(value);
        match (&mut last.normal, normal) {
            (Some(kept), Some(normal)) => {
                kept.clear();
                kept.extend_from_slice(normal);
            }
            (kept, normal) => *kept = normal.map(<[u8]>::to_vec),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_knows_its_last_value() {
        let mut memo = NormalFormCache::default();
        memo.keep(2, 5, b"cn=A", Some(b"cn=a"));
        memo.keep(0, 6, b"cn=B", None);
        let found = |memo: &NormalFormCache, place, column, value: &[u8]| {
            memo.find(place, column, value).map(|last| last.normal.clone())
        };
        assert_eq!(found(&memo, 2, 5, b"cn=A"), Some(Some(b"cn=a".to_vec())));
        assert_eq!(found(&memo, 0, 6, b"cn=B"), Some(None));
        assert_eq!(found(&memo, 2, 6, b"cn=A"), None, "another column");
        assert_eq!(found(&memo, 0, 5, b"cn=A"), None);
        assert_eq!(found(&memo, 1, 0, b""), None);
        memo.keep(2, 5, b"cn=C", Some(b"cn=c"));
        assert_eq!(found(&memo, 2, 5, b"cn=A"), None);
        memo.keep(2, 5, &[b'a'; 129], None);
        assert_eq!(found(&memo, 2, 5, b"cn=C"), Some(Some(b"cn=c".to_vec())));
    }
}
