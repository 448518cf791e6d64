//! The lines of one entry on its way from LDIF to the database. A worker reuses the memory for the next entry.

/// A range of [`EntryLines::bytes`], followed by the NUL that terminates the string in id2e.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    pub at: usize,
    pub length: usize,
}

/// A cached [`EntryLines::shape`].
#[derive(Debug, Default)]
pub struct Shape(u64, Vec<Attribute>);

impl Shape {
    #[inline]
    pub fn is_of(&self, draft: &EntryLines) -> bool {
        (self.0, &self.1[..]) == draft.shape()
    }

    pub fn keep(&mut self, draft: &EntryLines) {
        let (shape, added) = draft.shape();
        self.0 = shape;
        self.1.clear();
        self.1.extend_from_slice(added);
    }
}

/// A value and its normal form. Both are the same span if the equality rule has no normaliser.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ValueSpans {
    pub value: Span,
    pub normal: Span,
}

impl ValueSpans {
    /// Returns both spans shifted by `by` bytes.
    #[inline]
    pub fn moved(self, by: usize) -> Self {
        let moved = |span: Span| Span { at: span.at + by, ..span };
        Self { value: moved(self.value), normal: moved(self.normal) }
    }
}

/// The lines of one attribute description; before [`EntryLines::gather`], one run of adjacent lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attribute {
    /// Index into the worker's columns.
    pub column: usize,
    /// Index into [`EntryLines::pairs`].
    pub first: usize,
    pub count: usize,
    /// Normal forms are stored. slapadd stores none for most attributes that it generates.
    pub normals: bool,
}

/// The entry number in [`EntryLines::met`] for a column that no entry has had.
const UNMET: u64 = u64::MAX;

#[derive(Debug, Default)]
pub struct EntryLines {
    pub bytes: Vec<u8>,
    pub pairs: Vec<ValueSpans>,
    pub attributes: Vec<Attribute>,
    /// The column of each line, in the order of `pairs`. Consecutive entries are often alike, so `columns`,
    /// `attributes` and `met` of the previous entry are kept until a line of the current entry has another column.
    columns: Vec<usize>,
    /// Number of lines of the current entry that were read.
    read: usize,
    /// All lines of the current entry were read.
    complete: bool,
    /// An attribute got a value that no line has.
    changed: bool,
    /// A number that changes whenever `columns` changes.
    shape: u64,
    /// Number of attributes that come from lines.
    in_lines: usize,
    /// By column: the number of the last entry with the column, and the column's index in that entry's `attributes`.
    met: Vec<(u64, usize)>,
    /// Number of the current entry. Consecutive entries with the same columns have the same number.
    entry: u64,
    /// The lines of some attribute are not adjacent.
    scattered: bool,
}

impl EntryLines {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.in_lines = 0;
        if self.changed || self.scattered {
            self.columns.clear();
            self.pairs.clear();
            self.attributes.clear();
            self.entry += 1;
            self.shape += 1;
        }
        (self.changed, self.scattered) = (false, false);
        self.forget(self.columns.len());
        (self.read, self.complete) = (0, false);
    }

    /// Drops all lines after the first `count` lines.
    fn forget(&mut self, count: usize) {
        self.shape += u64::from(count < self.columns.len());
        self.columns.truncate(count);
        self.pairs.truncate(count);
        while let Some(last) = self.attributes.last_mut() {
            if last.first < count {
                last.count = last.count.min(count - last.first);
                return;
            }
            self.met[last.column].0 = UNMET;
            self.attributes.pop();
        }
    }

    /// Returns a number that identifies the columns of the lines, and the attributes added after [`Self::gather`].
    /// Entries for which both are equal differ only in their values. Call it after `gather`.
    #[inline]
    pub fn shape(&self) -> (u64, &[Attribute]) {
        (self.shape, &self.attributes[self.in_lines..])
    }

    #[inline]
    pub fn bytes_of(&self, span: Span) -> &[u8] {
        &self.bytes[span.at..span.at + span.length]
    }

    pub fn pairs_of(&self, attribute: &Attribute) -> &[ValueSpans] {
        &self.pairs[attribute.first..attribute.first + attribute.count]
    }

    pub fn values_of<'a>(&'a self, attribute: &Attribute) -> impl Iterator<Item = &'a [u8]> + Clone {
        self.pairs_of(attribute).iter().map(|pair| self.bytes_of(pair.value))
    }

    /// Returns the values as matching rules see them.
    pub fn normals_of<'a>(&'a self, attribute: &Attribute) -> impl Iterator<Item = &'a [u8]> + Clone {
        self.pairs_of(attribute).iter().map(|pair| self.bytes_of(pair.normal))
    }

    #[inline]
    pub fn add_bytes(&mut self, bytes: &[u8]) -> Span {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.end_piece(at)
    }

    /// Adds a value and its normal form.
    #[inline]
    pub fn add_pair(&mut self, value: &[u8], normal: &[u8]) -> ValueSpans {
        ValueSpans { value: self.add_bytes(value), normal: self.add_bytes(normal) }
    }

    /// Terminates the piece that begins at `at` with a NUL and returns its span.
    #[inline]
    pub fn end_piece(&mut self, at: usize) -> Span {
        let length = self.bytes.len() - at;
        self.bytes.push(0);
        Span { at, length }
    }

    /// Appends a value and its normal form. `pair`: their spans in `pieces`. Returns their spans in this draft.
    #[inline]
    pub fn add_pieces(&mut self, pieces: &[u8], pair: ValueSpans) -> ValueSpans {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(pieces);
        pair.moved(from)
    }

    /// Adds a value of [`ValueForm::Text`](schema::ValueForm::Text) and its normal form. If normalising would do more
    /// than change the case, adds nothing and returns `None`.
    #[inline]
    pub fn add_text(&mut self, value: &[u8]) -> Option<ValueSpans> {
        if *value.first()? == b' ' || *value.last()? == b' ' {
            return None;
        }
        let value_span = self.add_bytes(value);
        let at = self.bytes.len();
        self.bytes.extend_from_slice(value);
        // Padding completes the last word. slapd's normalisation would not change it.
        self.bytes.extend_from_slice(&[b'x'; 7]);
        let (mut odd, mut before) = (0, 0);
        for word in self.bytes[at..].chunks_exact_mut(8) {
            let (lower, odd_here) = fold(u64_of(word), &mut before);
            word.copy_from_slice(&lower.to_le_bytes());
            odd |= odd_here;
        }
        if odd != 0 {
            self.bytes.truncate(value_span.at);
            return None;
        }
        self.bytes.truncate(at + value.len());
        Some(ValueSpans { value: value_span, normal: self.end_piece(at) })
    }

    /// Like [`Self::add_text`], for the value of a line. `text` begins with the space before the value. Also returns
    /// `None` if the line is folded or ends near the end of `text`, or if the last block extends beyond the line and
    /// has characters there that [`fold_block`] refuses.
    #[inline]
    pub fn add_text_line(&mut self, text: &[u8]) -> Option<ValueSpans> {
        let length = line_end(&text[1..])?;
        let (value, next) = (&text[1..=length], text.get(length + 2));
        if matches!(value.first()?, b' ' | b'\t'..=b'\r') || matches!(value.last()?, b' ' | b'\r') {
            return None;
        }
        if let (Some((block, _)), Some(before)) = (text[1..].split_first_chunk(), text.first_chunk()) {
            if length <= BLOCK && next != Some(&b' ') {
                return self.add_block(block, before, length);
            }
        }
        let count = length.div_ceil(BLOCK);
        if next == Some(&b' ') || text.len() < 1 + count * BLOCK {
            return None;
        }
        let at = self.bytes.len();
        self.bytes.reserve(2 * (length + BLOCK));
        let blocks = text[1..].chunks_exact(BLOCK).take(count);
        for block in blocks.clone() {
            self.bytes.extend_from_slice(block.first_chunk::<BLOCK>()?);
        }
        self.bytes.truncate(at + length);
        let value = self.end_piece(at);
        let (at, mut odd) = (self.bytes.len(), 0);
        for (block, before) in blocks.zip(text.chunks_exact(BLOCK)) {
            let (lower, odd_here) = fold_block(block.first_chunk()?, before.first_chunk()?);
            self.bytes.extend_from_slice(&lower);
            odd |= odd_here;
        }
        if odd != 0 {
            self.bytes.truncate(value.at);
            return None;
        }
        self.bytes.truncate(at + length);
        Some(ValueSpans { value, normal: self.end_piece(at) })
    }

    /// Like [`Self::add_text_line`], for a value of at most one block. Most values are that short.
    #[inline]
    fn add_block(&mut self, block: &[u8; BLOCK], before: &[u8; BLOCK], length: usize) -> Option<ValueSpans> {
        const ROOM: usize = 2 * (BLOCK + 1);
        let (lower, odd) = fold_block(block, before);
        if odd != 0 {
            return None;
        }
        let (at, normal) = (self.bytes.len(), length + 1);
        self.bytes.extend_from_slice(&[0; ROOM]);
        let room = self.bytes.last_chunk_mut::<ROOM>()?;
        room[..BLOCK].copy_from_slice(block);
        room[length] = 0;
        room[normal..normal + BLOCK].copy_from_slice(&lower);
        room[normal + length] = 0;
        self.bytes.truncate(at + 2 * normal);
        let span = |at| Span { at, length };
        Some(ValueSpans { value: span(at), normal: span(at + normal) })
    }

    /// Returns the index of a column in `attributes`.
    #[inline]
    pub fn position(&self, column: usize) -> Option<usize> {
        if self.scattered {
            return self.attributes.iter().position(|attribute| attribute.column == column);
        }
        self.met.get(column).filter(|(entry, _)| *entry == self.entry).map(|(_, at)| *at)
    }

    #[inline]
    pub fn find(&self, column: usize) -> Option<&Attribute> {
        self.attributes.get(self.position(column)?)
    }

    /// Appends a value: to the last attribute if that has the same column, else as a new attribute. All values of a
    /// column that are added before [`Self::gather`] must have the same `normals`.
    #[inline]
    pub fn add_line(&mut self, column: usize, pair: ValueSpans, normals: bool) {
        if self.columns.get(self.read) == Some(&column) {
            self.pairs[self.read] = pair;
            self.read += 1;
        } else {
            self.add_other_line(column, pair, normals);
        }
    }

    fn add_other_line(&mut self, column: usize, pair: ValueSpans, normals: bool) {
        if !self.complete {
            self.forget(self.read);
            self.columns.push(column);
            self.read += 1;
            self.shape += 1;
        }
        self.push_pair(column, pair, normals);
    }

    fn push_pair(&mut self, column: usize, pair: ValueSpans, normals: bool) {
        self.pairs.push(pair);
        match self.attributes.last_mut() {
            Some(last) if last.column == column => last.count += 1,
            _ => {
                let first = self.pairs.len() - 1;
                self.meet(column);
                self.attributes.push(Attribute { column, first, count: 1, normals });
            }
        }
    }

    fn meet(&mut self, column: usize) {
        if column >= self.met.len() {
            self.met.resize(column + 1, (UNMET, 0));
        }
        if self.met[column].0 == self.entry {
            self.scattered = true;
        } else {
            self.met[column] = (self.entry, self.attributes.len());
        }
    }

    /// Moves the lines of each column to the position of the column's first line, as slapadd does without `-q`
    /// (`str2entry2` in `servers/slapd/entry.c`). slapadd compares the spelling of attribute descriptions; this
    /// function compares their meaning.
    pub fn gather(&mut self) {
        self.forget(self.read);
        // `columns` has no line with this index, so `add_line` adds new attributes from now on.
        (self.read, self.complete) = (usize::MAX, true);
        if self.scattered {
            self.bring_together();
        }
        self.in_lines = self.attributes.len();
    }

    fn bring_together(&mut self) {
        let Self { attributes, met, .. } = self;
        attributes.sort_by_key(|attribute| met[attribute.column].1);
        let blocks = std::mem::take(attributes);
        let pairs = std::mem::take(&mut self.pairs);
        for block in blocks {
            for pair in &pairs[block.first..block.first + block.count] {
                self.push_pair(block.column, *pair, block.normals);
            }
        }
    }

    /// Appends a value to the attribute at `index`, whose pairs move to the end of `pairs`.
    pub fn add_value(&mut self, index: usize, pair: ValueSpans) {
        self.changed = true;
        self.shape += 1;
        let old = self.attributes[index];
        let first = self.pairs.len();
        self.pairs.extend_from_within(old.first..old.first + old.count);
        self.pairs.push(pair);
        self.attributes[index] = Attribute { first, count: old.count + 1, ..old };
    }
}

/// Number of bytes that [`fold_block`] processes at once: two vector registers on every processor.
const BLOCK: usize = 32;

/// Returns the bytes of `block` in lower case, and a number that is not 0 if the block contains NUL, CR, a byte that is
/// not ASCII, or a space after a space. `before`: the byte before each byte of the block.
#[inline]
fn fold_block(block: &[u8; BLOCK], before: &[u8; BLOCK]) -> ([u8; BLOCK], u8) {
    let (mut lower, mut odd) = ([0; BLOCK], 0);
    for at in 0..BLOCK {
        let (byte, before) = (block[at], before[at]);
        lower[at] = byte | u8::from(byte.wrapping_sub(b'A') < 26) << 5;
        odd |= u8::from(byte.wrapping_sub(1) >= 0x7f) | u8::from(byte == b'\r');
        odd |= u8::from(byte == b' ') & u8::from(before == b' ');
    }
    (lower, odd)
}

/// Returns the offset of the first newline, or `None` if it is among the last 7 bytes of `text`.
#[inline]
fn line_end(text: &[u8]) -> Option<usize> {
    const EACH: u64 = 0x0101_0101_0101_0101;
    for (at, word) in text.chunks_exact(8).enumerate() {
        let differing = u64_of(word) ^ (u64::from(b'\n') * EACH);
        // The lowest bit that is set belongs to the first byte without a difference.
        let same = differing.wrapping_sub(EACH) & !differing & (0x80 * EACH);
        if same != 0 {
            return Some(8 * at + same.trailing_zeros() as usize / 8);
        }
    }
    None
}

fn u64_of(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

/// Returns true if `normal` is the normal form of a [`ValueForm::Text`](schema::ValueForm::Text) value and differs from
/// the value only in case. If it returns false, `normal` may still be right.
#[inline]
pub fn is_plain_text(value: &[u8], normal: &[u8]) -> bool {
    let (Some(first), Some(last)) = (value.first(), value.last()) else { return false };
    if *first == b' ' || *last == b' ' || value.len() != normal.len() {
        return false;
    }
    let (mut before, mut differing) = (0, 0);
    let mut see = |value: &[u8], normal: &[u8]| {
        let (lower, odd) = fold(u64_of(value), &mut before);
        differing |= lower ^ u64_of(normal) | odd;
    };
    let (values, normals) = (value.chunks_exact(8), normal.chunks_exact(8));
    let tails = [values.remainder(), normals.remainder()];
    values.zip(normals).for_each(|(value, normal)| see(value, normal));
    let [value, normal] = tails.map(|tail| {
        let mut word = [b'x'; 8];
        word[..tail.len()].copy_from_slice(tail);
        word
    });
    see(&value, &normal);
    differing == 0
}

/// Returns eight characters in lower case, and a word that is not 0 if a character is NUL or not ASCII, or if two
/// spaces are adjacent. `before` is `0x80` if the preceding character is a space, else 0.
#[inline]
fn fold(word: u64, before: &mut u64) -> (u64, u64) {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * EACH;
    // Sums of ASCII characters never carry into the next byte. The results for other characters are not used.
    let above = |word: u64, least: u8| word.wrapping_add(u64::from(0x80 - least) * EACH);
    let is_nul = !above(word, 1);
    let is_space = !above(word ^ (u64::from(b' ') * EACH), 1) & HIGH;
    let is_twice = is_space & (is_space << 8 | *before);
    *before = is_space >> 56;
    let is_upper = above(word, b'A') & !above(word, b'Z' + 1) & HIGH;
    (word | is_upper >> 2, (word | is_nul | is_twice) & HIGH)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use values::{Normaliser, Syntax};

    use super::*;

    proptest! {
        /// Wherever the fast path returns a result, the slow path returns the same.
        #[test]
        fn text_has_the_normal_form_of_its_rules(value in "[ -~\\t\\x00\\x7fA-Z éß]{0,40}") {
            let (value, mut draft) = (value.as_bytes(), EntryLines::default());
            draft.add_bytes(b"before");
            let Some(pair) = draft.add_text(value) else {
                prop_assert_eq!(&draft.bytes, b"before\0");
                prop_assert!(!is_plain_text(value, &value.to_ascii_lowercase()));
                return Ok(());
            };
            prop_assert_eq!(draft.bytes_of(pair.value), value);
            let rules = [
                (Normaliser::CaseIgnore, Syntax::DirectoryString),
                (Normaliser::CaseIgnoreIa5, Syntax::Ia5String),
            ];
            for (normaliser, syntax) in rules {
                let mut normal = Vec::new();
                normaliser.apply(value, &mut normal).unwrap();
                prop_assert_eq!(draft.bytes_of(pair.normal), &normal);
                prop_assert!(is_plain_text(value, &normal));
                prop_assert!(syntax.check(value).is_ok());
            }
        }
    }

    proptest! {
        /// If the fast path accepts a line, it gives the same value and normal form as the slow path.
        #[test]
        fn a_line_of_text_is_folded_like_its_value(
            value in "[ -~é\\x00\\r]{0,80}", rest in "(\n|\n a)x{0,70}",
        ) {
            let text = format!(" {value}{rest}");
            let (mut draft, mut other) = (EntryLines::default(), EntryLines::default());
            draft.add_bytes(b"before");
            let Some(pair) = draft.add_text_line(text.as_bytes()) else {
                prop_assert_eq!(&draft.bytes, b"before\0");
                return Ok(());
            };
            let expected = other.add_text(value.as_bytes()).unwrap();
            prop_assert_eq!(draft.bytes_of(pair.value), value.as_bytes());
            prop_assert_eq!(draft.bytes_of(pair.normal), other.bytes_of(expected.normal));
            prop_assert_eq!(draft.bytes.len(), b"before\0".len() + other.bytes.len());
            prop_assert!(!rest.starts_with("\n ") && !value.ends_with('\r'));
        }
    }

    #[test]
    fn ordinary_text_takes_the_fast_path() {
        let mut draft = EntryLines::default();
        let pair = draft.add_text(b"Anna Maria").unwrap();
        assert_eq!(draft.bytes_of(pair.normal), b"anna maria");
        assert!(is_plain_text(b"Anna Maria", b"anna maria"));
        for other in [&b"anna maria "[..], b"anna mario", b"anna Maria", b"bnna maria", b""] {
            assert!(!is_plain_text(b"Anna Maria", other));
        }
        let line = " Some Words, more than one block of them\nnext: line of more than one block also";
        let pair = draft.add_text_line(line.as_bytes()).unwrap();
        assert_eq!(draft.bytes_of(pair.normal), b"some words, more than one block of them");
        for odd in [&b""[..], b" a", b"a ", b"a  b", b"a\0", "\u{e9}".as_bytes()] {
            assert!(draft.add_text(odd).is_none());
        }
    }
}
