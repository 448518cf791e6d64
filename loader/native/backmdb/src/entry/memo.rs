//! Caches recurring values with their normal forms: millions of entries have the same creatorsName and objectClass.

use crate::draft::{EntryLines, Span, ValueSpans};

/// Length of the longest value that is cached, in bytes.
const LONGEST: usize = 128;

/// After more than this many misses in a row, the values of a line are not cached until the count wraps at 256.
const MISSES: u8 = 8;

/// The last value of the line at one position in an entry, and its normal form. Consecutive entries are often alike, so
/// each line of a multi-valued attribute such as objectClass has its own cached value.
#[derive(Debug, Default)]
pub struct LastValue {
    /// The value and its normal form.
    pieces: Vec<u8>,
    /// Spans in `pieces`.
    pair: ValueSpans,
    /// Normal forms are stored.
    normals: bool,
    /// LDIF can spell the value without base64, and a line that repeats it needs no processing.
    is_plain: bool,
    misses: u8,
}

impl LastValue {
    /// Returns true if `value` is the cached value.
    #[inline]
    pub fn is(&mut self, value: &[u8]) -> bool {
        let is_same = !value.is_empty() && self.value() == Some(value);
        self.misses = if is_same { 0 } else { self.misses.wrapping_add(1) };
        is_same
    }

    /// Adds the cached value to an entry.
    #[inline]
    pub fn add_to(&self, draft: &mut EntryLines, column: usize) {
        let pair = draft.add_pieces(&self.pieces, self.pair);
        draft.add_line(column, pair, self.normals);
    }

    fn value(&self) -> Option<&[u8]> {
        self.pieces.get(..self.pair.value.length)
    }

    /// Returns the cached value if the last value compared with it was equal, and LDIF can spell it without base64.
    #[inline]
    pub fn repeated(&self) -> Option<&[u8]> {
        self.value().filter(|_| self.is_plain && self.misses == 0)
    }

    /// Caches the value that was last added to `draft`. `as_it_stands`: a line that repeats the value needs no
    /// processing.
    #[inline]
    pub fn keep(&mut self, draft: &EntryLines, (pair, normals): (ValueSpans, bool), as_it_stands: bool) {
        if pair.value.length > LONGEST || self.misses > MISSES {
            return;
        }
        let from = pair.value.at;
        let moved = |span: Span| Span { at: span.at - from, ..span };
        self.pieces.clear();
        self.pieces.extend_from_slice(&draft.bytes[from..]);
        self.pair = ValueSpans { value: moved(pair.value), normal: moved(pair.normal) };
        self.normals = normals;
        let value = draft.bytes_of(pair.value);
        let is_bare = |byte: &u8| !matches!(byte, b' ' | b'\t'..=b'\r');
        self.is_plain = as_it_stands
            && value.first().is_some_and(is_bare)
            && !value.iter().any(|byte| matches!(byte, 0 | b'\n' | b'\r'));
    }
}

/// Adjacent lines that were the same in the previous entries. They are compared and added at once.
#[derive(Debug, Default)]
pub struct LineRun {
    /// The lines as they are in LDIF.
    pub text: Vec<u8>,
    pieces: Vec<u8>,
    /// For each line: its column, its span in `pieces`, and whether normal forms are stored.
    lines: Vec<(usize, ValueSpans, bool)>,
}

impl LineRun {
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Appends a line with `description` and the value of `last`, without base64.
    #[must_use]
    pub fn with(mut self, column: usize, description: &[u8], last: &LastValue) -> Self {
        let value = last.value().unwrap_or_default();
        self.text.extend([description, b": ", value, b"\n"].concat());
        self.lines.push((column, last.pair.moved(self.pieces.len()), last.normals));
        self.pieces.extend_from_slice(&last.pieces);
        self
    }

    #[inline]
    pub fn add_to(&self, draft: &mut EntryLines) {
        let from = draft.bytes.len();
        draft.bytes.extend_from_slice(&self.pieces);
        for &(column, pair, normals) in &self.lines {
            draft.add_line(column, pair.moved(from), normals);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(last: &mut LastValue, value: &[u8]) {
        let mut draft = EntryLines::default();
        draft.add_bytes(b"before");
        let pair = ValueSpans { value: draft.add_bytes(value), normal: draft.add_bytes(b"n") };
        last.keep(&draft, (pair, true), true);
    }

    #[test]
    fn only_the_last_value_matches() {
        let mut last = LastValue::default();
        assert!(!last.is(b"") && !last.is(b"cn=A") && last.repeated().is_none());
        keep(&mut last, b"cn=A");
        assert!(last.is(b"cn=A"));
        assert_eq!(last.repeated(), Some(&b"cn=A"[..]));
        let mut draft = EntryLines::default();
        draft.add_bytes(b"other");
        let pair = draft.add_pieces(&last.pieces, last.pair);
        assert_eq!((draft.bytes_of(pair.value), draft.bytes_of(pair.normal)), (&b"cn=A"[..], &b"n"[..]));
        keep(&mut last, &[b'a'; 129]);
        assert!(last.is(b"cn=A") && !last.is(b"cn=B"));
        assert_eq!(last.repeated(), None);
    }

    #[test]
    fn values_that_need_encoding_are_not_repeated() {
        let mut last = LastValue::default();
        for value in [&b" a"[..], b"\ta", b"a\r", b"a\nb", b"a\0b"] {
            keep(&mut last, value);
            assert!(last.is(value) && last.repeated().is_none());
        }
    }

    #[test]
    fn a_line_with_changing_values_is_cached_now_and_then() {
        let (mut last, mut kept) = (LastValue::default(), 0);
        for number in 0..2_000_u32 {
            let value = number.to_string();
            let _ = last.is(value.as_bytes());
            keep(&mut last, value.as_bytes());
            kept += u32::from(last.pieces.starts_with(value.as_bytes()));
        }
        assert!((20..200).contains(&kept), "{kept}");
    }
}
