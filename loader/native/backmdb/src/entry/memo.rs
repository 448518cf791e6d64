//! Normal forms of values that come again and again: millions of entries have the same creatorsName and objectClass.

use crate::draft::{EntryLines, Span, ValueSpans};

/// Lines of an entry whose values are kept, and the longest value.
const LINES: usize = 256;
const LONGEST: usize = 128;

/// So many other values in a row, and the values of a line are kept only now and then.
const MISSES: u8 = 8;

/// The last value of each line of an entry, and its normal form. Entries often are alike, so that a line that a column
/// has several of, such as objectClass, has its own.
#[derive(Debug, Default)]
pub struct NormalFormCache(Vec<LastValue>);

#[derive(Debug, Default)]
pub struct LastValue {
    column: usize,
    /// As they stand in an empty draft.
    pub pieces: Vec<u8>,
    pub pair: ValueSpans,
    /// Normal forms are stored.
    pub normals: bool,
    misses: u8,
}

impl NormalFormCache {
    /// The last value in that place, if it was this one of that column.
    #[inline]
    pub fn find(&mut self, place: usize, column: usize, value: &[u8]) -> Option<&LastValue> {
        let last = self.0.get_mut(place).filter(|last| last.column == column)?;
        if value.is_empty() || last.pieces.get(..last.pair.value.length) != Some(value) {
            last.misses = last.misses.wrapping_add(1);
            return None;
        }
        last.misses = 0;
        Some(last)
    }

    /// Keeps the value that `draft` got last.
    #[inline]
    pub fn keep(
        &mut self,
        place: usize,
        column: usize,
        draft: &EntryLines,
        (pair, normals): (ValueSpans, bool),
    ) {
        if place >= LINES || pair.value.length > LONGEST {
            return;
        }
        if self.0.len() <= place {
            self.0.resize_with(place + 1, LastValue::default);
        }
        let last = &mut self.0[place];
        if last.column != column {
            (last.column, last.misses) = (column, 0);
        } else if last.misses > MISSES {
            return;
        }
        let from = pair.value.at;
        let moved = |span: Span| Span { at: span.at - from, ..span };
        last.pieces.clear();
        last.pieces.extend_from_slice(&draft.bytes[from..]);
        last.pair = ValueSpans { value: moved(pair.value), normal: moved(pair.normal) };
        last.normals = normals;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(memo: &mut NormalFormCache, (place, column): (usize, usize), value: &[u8]) {
        let mut draft = EntryLines::default();
        draft.add_bytes(b"before");
        let pair = ValueSpans { value: draft.add_bytes(value), normal: draft.add_bytes(b"n") };
        memo.keep(place, column, &draft, (pair, true));
    }

    fn found(
        memo: &mut NormalFormCache,
        (place, column): (usize, usize),
        value: &[u8],
    ) -> Option<Vec<u8>> {
        let (last, mut draft) = (memo.find(place, column, value)?, EntryLines::default());
        draft.add_bytes(b"other");
        let pair = draft.add_pieces(&last.pieces, last.pair);
        assert_eq!(draft.bytes_of(pair.value), value);
        Some(draft.bytes_of(pair.normal).to_vec())
    }

    #[test]
    fn each_line_knows_its_last_value() {
        let mut memo = NormalFormCache::default();
        keep(&mut memo, (2, 5), b"cn=A");
        keep(&mut memo, (0, 6), b"cn=B");
        assert_eq!(found(&mut memo, (2, 5), b"cn=A"), Some(b"n".to_vec()));
        assert_eq!(found(&mut memo, (0, 6), b"cn=B"), Some(b"n".to_vec()));
        assert_eq!(found(&mut memo, (2, 6), b"cn=A"), None, "another column");
        assert_eq!(found(&mut memo, (0, 5), b"cn=A"), None);
        assert_eq!(found(&mut memo, (1, 0), b""), None);
        keep(&mut memo, (2, 5), b"cn=C");
        assert_eq!(found(&mut memo, (2, 5), b"cn=A"), None);
        keep(&mut memo, (2, 5), &[b'a'; 129]);
        assert_eq!(found(&mut memo, (2, 5), b"cn=C"), Some(b"n".to_vec()));
    }

    #[test]
    fn a_line_of_ever_new_values_is_kept_now_and_then() {
        let mut memo = NormalFormCache::default();
        let mut kept = 0;
        for number in 0..2_000_u32 {
            let value = number.to_string();
            let _ = found(&mut memo, (0, 1), value.as_bytes());
            keep(&mut memo, (0, 1), value.as_bytes());
            kept += u32::from(memo.0[0].pieces.starts_with(value.as_bytes()));
        }
        assert!((20..200).contains(&kept), "{kept}");
        keep(&mut memo, (0, 2), b"another column");
        assert!(found(&mut memo, (0, 2), b"another column").is_some());
    }
}
