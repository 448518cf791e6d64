//! One entry on its way from LDIF to the database; the worker reuses its memory from entry to entry.

/// A piece of [`EntryLines::bytes`]. The NUL that ends it in id2e stands behind it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    pub at: usize,
    pub length: usize,
}

/// A value and its normal form; the same span where the equality rule has no normaliser.
#[derive(Debug, Clone, Copy, Default)]
pub struct ValueSpans {
    pub value: Span,
    pub normal: Span,
}

/// The lines of one attribute description; until they are gathered, only neighbouring ones.
#[derive(Debug, Clone, Copy)]
pub struct Attribute {
    /// Index into the worker's columns.
    pub column: usize,
    pub first: usize,
    pub count: usize,
    /// Normal forms are stored. Those that slapadd generates mostly have none.
    pub normals: bool,
}

#[derive(Debug, Default)]
pub struct EntryLines {
    pub bytes: Vec<u8>,
    pub pairs: Vec<ValueSpans>,
    pub attributes: Vec<Attribute>,
    /// Of each column: the last entry that had it, and its place among the attributes there.
    met: Vec<(u64, usize)>,
    /// Number of the entry in hand.
    entry: u64,
    /// The lines of some column do not stand together.
    scattered: bool,
}

impl EntryLines {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.pairs.clear();
        self.attributes.clear();
        self.entry += 1;
        self.scattered = false;
    }

    #[inline]
    pub fn bytes_of(&self, span: Span) -> &[u8] {
        &self.bytes[span.at..span.at + span.length]
    }

    pub fn pairs_of(&self, attribute: &Attribute) -> &[ValueSpans] {
        &self.pairs[attribute.first..attribute.first + attribute.count]
    }

    pub fn values_of<'a>(
        &'a self,
        attribute: &Attribute,
    ) -> impl Iterator<Item = &'a [u8]> + Clone {
        self.pairs_of(attribute).iter().map(|pair| self.bytes_of(pair.value))
    }

    /// What matching rules see.
    pub fn normals_of<'a>(
        &'a self,
        attribute: &Attribute,
    ) -> impl Iterator<Item = &'a [u8]> + Clone {
        self.pairs_of(attribute).iter().map(|pair| self.bytes_of(pair.normal))
    }

    #[inline]
    pub fn add_bytes(&mut self, bytes: &[u8]) -> Span {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.end_piece(at)
    }

    /// Returns the piece that begins at `at`, after a NUL is put behind it.
    #[inline]
    pub fn end_piece(&mut self, at: usize) -> Span {
        let length = self.bytes.len() - at;
        self.bytes.push(0);
        Span { at, length }
    }

    /// Adds pieces that stand as they would in an empty draft; returns where they are now.
    #[inline]
    pub fn add_pieces(&mut self, pieces: &[u8], pair: ValueSpans) -> ValueSpans {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(pieces);
        let moved = |span: Span| Span { at: span.at + from, ..span };
        ValueSpans { value: moved(pair.value), normal: moved(pair.normal) }
    }

    /// Adds a value of [`ValueForm::Text`](crate::descriptions::ValueForm::Text) and its normal form. Returns
    /// `None`, and adds nothing, if there is more to either than a change of case.
    #[inline]
    pub fn add_text(&mut self, value: &[u8]) -> Option<ValueSpans> {
        if *value.first()? == b' ' || *value.last()? == b' ' {
            return None;
        }
        let value_span = self.add_bytes(value);
        let at = self.bytes.len();
        self.bytes.extend_from_slice(value);
        // Characters that slapd would not change fill the last word.
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

    /// Where in `attributes` a column is.
    #[inline]
    pub fn position(&self, column: usize) -> Option<usize> {
        if self.scattered {
            return self.attributes.iter().position(|one| one.column == column);
        }
        self.met.get(column).filter(|(entry, _)| *entry == self.entry).map(|(_, at)| *at)
    }

    #[inline]
    pub fn find(&self, column: usize) -> Option<&Attribute> {
        self.attributes.get(self.position(column)?)
    }

    /// One more value at the end; in the last attribute when it is of the same column.
    #[inline]
    pub fn add_line(&mut self, column: usize, pair: ValueSpans, normals: bool) {
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
            self.met.resize(column + 1, (0, 0));
        }
        if self.met[column].0 == self.entry {
            self.scattered = true;
        } else {
            self.met[column] = (self.entry, self.attributes.len());
        }
    }

    /// Brings the lines of each column together, in the place of the first one, as slapadd does
    /// without `-q` (`str2entry2` in `servers/slapd/entry.c`); there it goes by the spelling of the
    /// description, here by what it means.
    pub fn gather(&mut self) {
        if !self.scattered {
            return;
        }
        let Self { attributes, met, .. } = self;
        attributes.sort_by_key(|one| met[one.column].1);
        let blocks = std::mem::take(attributes);
        let pairs = std::mem::take(&mut self.pairs);
        for block in blocks {
            for pair in &pairs[block.first..block.first + block.count] {
                self.add_line(block.column, *pair, block.normals);
            }
        }
    }

    /// One more value in the attribute at `index`, whose pairs move to the end.
    pub fn add_value(&mut self, index: usize, pair: ValueSpans) {
        let one = self.attributes[index];
        let first = self.pairs.len();
        self.pairs.extend_from_within(one.first..one.first + one.count);
        self.pairs.push(pair);
        self.attributes[index] = Attribute { first, count: one.count + 1, ..one };
    }
}

fn u64_of(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

/// Whether a value of [`ValueForm::Text`](crate::descriptions::ValueForm::Text) has this normal form because nothing but
/// its case changes. False says nothing of either.
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

/// Returns eight characters in lower case, and not 0 if one of them is NUL or beyond ASCII, or two are spaces in a row.
/// `before`: the highest bit of the lowest byte is set if the character before these is a space.
#[inline]
fn fold(word: u64, before: &mut u64) -> (u64, u64) {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * EACH;
    // Of ASCII characters no sum carries into the next byte; what others make of it does not count.
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
        /// The fast way and the slow one agree wherever the fast one answers.
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

    #[test]
    fn ordinary_text_takes_the_fast_way() {
        let mut draft = EntryLines::default();
        let pair = draft.add_text(b"Anna Maria").unwrap();
        assert_eq!(draft.bytes_of(pair.normal), b"anna maria");
        assert!(is_plain_text(b"Anna Maria", b"anna maria"));
        for other in [&b"anna maria "[..], b"anna mario", b"anna Maria", b"bnna maria", b""] {
            assert!(!is_plain_text(b"Anna Maria", other));
        }
        for odd in [&b""[..], b" a", b"a ", b"a  b", b"a\0", "\u{e9}".as_bytes()] {
            assert!(draft.add_text(odd).is_none());
        }
    }
}
