//! The table id2e: entries without their DNs, which are in dn2i.
//!
//! ```text
//! | attributes: 4 | slots: 4 | object class flags: 4 | words: 4 |     words: number of the words that follow here
//! for each attribute, in the entry's order:
//! | number in ad2i, SORTED, APART: 4 | count, NORMAL: 4 |             number and number of values with their flags
//! | length: 4 | ... | length: 4 | ...                                 of the values, then of the normal forms
//! for each attribute:
//! | value | 0 | ... | normal form | 0 | ...
//! | padding to 8 bytes |                                              slapd leaves it uninitialised; here it is zero
//! ```
//!
//! Words are little-endian. `slots` is the number of values for which slapd allocates memory: for each attribute one
//! more than it has values, and as many again if it has normal forms. An attribute with values in id2v (APART) has no
//! lengths and no values here. An unused ID between used IDs has an empty record.

use smallvec::SmallVec;

/// Flag in an attribute's number: the values are in the order of their equality rule (`sortvals`).
pub const SORTED: u32 = 0x8000_0000;
/// Flag in an attribute's number: the values are in id2v (`multival`).
pub const APART: u32 = 0x4000_0000;
/// Flag in the number of values: normal forms follow the values.
pub const NORMAL: u32 = 0x8000_0000;
/// Mask of an attribute's number without its flags.
pub const NUMBER: u32 = 0x3fff_ffff;
/// Limit on an attribute's number of values, so that the slots fit in 32 bits. A record with more values is invalid.
const MOST_VALUES: u32 = 1 << 28;

/// Values of an attribute. A single value, which most attributes have, needs no allocation.
pub type ValueList<'a> = SmallVec<[&'a [u8]; 1]>;

/// One attribute of a record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// The attribute's number in ad2i.
    pub number: u32,
    /// See [`SORTED`].
    pub sorted: bool,
    /// See [`APART`].
    pub apart: bool,
    pub has_normals: bool,
    /// Number of values, even if the values are in id2v.
    pub count: u32,
    /// Empty if the values are in id2v.
    pub values: ValueList<'a>,
    /// Empty unless the record has normal forms.
    pub normals: ValueList<'a>,
}

/// Returns the number of words that an attribute takes in the head of a record, before all values.
pub const fn words(count: usize, apart: bool, normals: bool) -> usize {
    2 + if apart { 0 } else { count * if normals { 2 } else { 1 } }
}

/// Appends an entry's record to a buffer. The number of words in its head must be known beforehand.
#[derive(Debug)]
pub struct Writer<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    words: usize,
    /// Offset of the next word in `out`.
    at: usize,
    attributes: u32,
    slots: u32,
}

impl<'o> Writer<'o> {
    /// `words` is the sum of [`words`] over all attributes that follow.
    pub fn new(out: &'o mut Vec<u8>, words: usize) -> Self {
        let start = out.len();
        out.resize(start + head_size(words), 0);
        Self { out, start, words, at: start + 16, attributes: 0, slots: 0 }
    }

    /// Begins an attribute. Unless `apart`, add its values and then its normal forms with [`Self::value`].
    #[allow(clippy::cast_possible_truncation, reason = "a record is at most 256 MiB")]
    pub fn attribute(&mut self, number: u32, sorted: bool, apart: bool, count: usize, normals: bool) {
        let count = count as u32;
        let flags = if sorted { SORTED } else { 0 } | if apart { APART } else { 0 };
        self.word(number | flags);
        self.word(count | if normals { NORMAL } else { 0 });
        self.attributes += 1;
        self.slots += (count + 1) * if normals { 2 } else { 1 };
    }

    pub fn value(&mut self, value: &[u8]) {
        self.length(value.len());
        self.out.extend_from_slice(value);
        self.out.push(0);
    }

    /// Adds the length of a value whose bytes the caller adds later. Returns the index of the length's word, for
    /// [`put_length`].
    #[allow(clippy::cast_possible_truncation, reason = "a record is at most 256 MiB")]
    pub fn length(&mut self, length: usize) -> usize {
        self.word(length as u32);
        (self.at - self.start) / 4 - 1
    }

    #[inline]
    fn word(&mut self, word: u32) {
        self.out[self.at..self.at + 4].copy_from_slice(&word.to_le_bytes());
        self.at += 4;
    }

    /// Finishes the record. `flags` are the object class flags.
    pub fn finish(mut self, flags: u32) {
        #[allow(clippy::cast_possible_truncation, reason = "far fewer words than bytes in a record")]
        let head = [self.attributes, self.slots, flags, self.words as u32];
        self.at = self.start;
        for word in head {
            self.word(word);
        }
        pad(self.out, self.start);
    }
}

/// Returns the size in bytes of a record's head, the part before the values, if it has this number of [`words`].
pub const fn head_size(words: usize) -> usize {
    16 + 4 * words
}

/// Stores the length of a value in the head of a record. `word` is the index of the length's word.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "a record is at most 256 MiB")]
pub fn put_length(head: &mut [u8], word: usize, length: usize) {
    head[4 * word..4 * word + 4].copy_from_slice(&(length as u32).to_le_bytes());
}

/// Finishes the record that begins at `start` and has a copied head: sets the object class flags and adds padding.
#[inline]
pub fn end(out: &mut Vec<u8>, start: usize, flags: u32) {
    out[start + 8..start + 12].copy_from_slice(&flags.to_le_bytes());
    pad(out, start);
}

fn pad(out: &mut Vec<u8>, start: usize) {
    let end = start + (out.len() - start).next_multiple_of(8);
    out.extend_from_slice(&[0; 8]);
    out.truncate(end);
}

/// A parsed entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts<'a> {
    /// The object class flags.
    pub flags: u32,
    pub attributes: Vec<Attribute<'a>>,
}

impl<'a> Parts<'a> {
    /// Replaces the attribute that has the same number, or adds the attribute after all others.
    #[must_use]
    pub fn with(mut self, attribute: Attribute<'a>) -> Self {
        match self.attributes.iter_mut().find(|old| old.number == attribute.number) {
            Some(old) => *old = attribute,
            None => self.attributes.push(attribute),
        }
        self
    }
}

/// Parses a record. Returns `None` unless all counts and lengths fit the record.
pub fn read(blob: &[u8]) -> Option<Parts<'_>> {
    let StoredEntry { flags, attributes } = StoredEntry::read(blob)?;
    Some(Parts { flags, attributes: attributes.iter().map(Stored::attribute).collect() })
}

/// A parsed entry whose attributes refer to the bytes of the record.
#[derive(Debug, Clone)]
pub struct StoredEntry<'a> {
    /// The object class flags.
    pub flags: u32,
    pub attributes: Vec<Stored<'a>>,
}

impl<'a> StoredEntry<'a> {
    /// Parses a record as [`read`] does, but builds no lists of values.
    pub fn read(blob: &'a [u8]) -> Option<Self> {
        Self::rest(&mut attributes(blob)?)
    }

    /// Does the same as [`Self::read`], but also rejects a wrong number of slots (slapd trusts that number), bytes that
    /// belong to no attribute, and a value without a NUL after it.
    pub fn read_whole(blob: &'a [u8]) -> Option<Self> {
        let mut rest = attributes(blob)?;
        let entry = Self::rest(&mut rest)?;
        let slots = |stored: &Stored<'_>| (u64::from(stored.count) + 1) << u32::from(stored.has_normals);
        let slots: u64 = entry.attributes.iter().map(slots).sum();
        let is_padded = rest.data.len() < 8 && blob.len() % 8 == 0;
        let has_nuls = |stored: &Stored<'_>| stored.values.have_nuls() && stored.normals.have_nuls();
        let is_whole = is_padded && slots == word(blob, 1)?.into();
        (is_whole && entry.attributes.iter().all(has_nuls)).then_some(entry)
    }

    fn rest(rest: &mut Attributes<'a>) -> Option<Self> {
        // An attribute has at least two words, which bounds the memory if the number of attributes is wrong.
        let mut attributes = Vec::with_capacity((rest.left as usize).min(rest.words.len() / 8));
        for _ in 0..rest.left {
            let mut stored = Stored::default();
            rest.attribute(&mut stored)?;
            attributes.push(stored);
        }
        rest.words.is_empty().then_some(Self { flags: rest.flags, attributes })
    }
}

/// Iterates over the attributes of a record without allocating memory. Returns `None` if the head is incomplete.
pub fn attributes(blob: &[u8]) -> Option<Attributes<'_>> {
    let [attributes, _, flags, words] = [0, 1, 2, 3].map(|at| word(blob, at));
    let size = (words? as usize).checked_mul(4)?;
    let rest = blob.get(16..)?;
    let (words, data) = rest.split_at_checked(size)?;
    Some(Attributes { flags: flags?, left: attributes?, words, data })
}

/// Returns the record of an entry.
pub fn write(parts: &Parts<'_>) -> Vec<u8> {
    let words = |attribute: &Attribute<'_>| words(attribute.values.len(), attribute.apart, attribute.has_normals);
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out, parts.attributes.iter().map(words).sum());
    for Attribute { number, sorted, apart, has_normals, count, values, normals } in &parts.attributes {
        writer.attribute(*number, *sorted, *apart, *count as usize, *has_normals);
        for value in values.iter().chain(normals) {
            writer.value(value);
        }
    }
    writer.finish(parts.flags);
    out
}

fn word(blob: &[u8], at: usize) -> Option<u32> {
    let bytes = blob.get(4 * at..4 * at + 4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// Calls `see` with each attribute. Faster than the iterator. `damaged` returns the error for an invalid record.
#[inline]
pub fn each<'a, E>(
    blob: &'a [u8],
    damaged: impl Fn() -> E,
    mut see: impl FnMut(&Stored<'a>) -> Result<(), E>,
) -> Result<(), E> {
    let mut rest = attributes(blob).ok_or_else(&damaged)?;
    // All attributes use one variable, because moving it would cost more than everything else here.
    let mut stored = Stored::default();
    for _ in 0..rest.left {
        rest.attribute(&mut stored).ok_or_else(&damaged)?;
        see(&stored)?;
    }
    if rest.words.is_empty() { Ok(()) } else { Err(damaged()) }
}

/// Replaces the number of each attribute by what `new` returns for it, and sets the padding to zero. `damaged` returns
/// the error for an invalid record.
pub fn renumber<E>(
    blob: &mut [u8],
    damaged: impl Fn() -> E,
    mut new: impl FnMut(u32) -> Result<u32, E>,
) -> Result<(), E> {
    let (heads, padding) = heads(blob).ok_or_else(damaged)?;
    for (at, number) in heads {
        let new = new(number & NUMBER)?;
        blob[at..at + 4].copy_from_slice(&(number & !NUMBER | new).to_le_bytes());
    }
    blob[padding..].fill(0);
    Ok(())
}

/// Returns the offset and the content of each word that holds an attribute's number, and the offset of the padding.
fn heads(blob: &[u8]) -> Option<(Vec<(usize, u32)>, usize)> {
    let (mut rest, mut stored, mut heads) = (attributes(blob)?, Stored::default(), Vec::new());
    let first_value = 16 + rest.words.len();
    for _ in 0..rest.left {
        heads.push((first_value - rest.words.len(), word(rest.words, 0)?));
        rest.attribute(&mut stored)?;
    }
    rest.words.is_empty().then_some((heads, blob.len() - rest.data.len()))
}

/// Yields the numbers of the attributes, and ends early if the record is invalid.
pub fn numbers(blob: &[u8]) -> impl Iterator<Item = u32> + '_ {
    let (mut at, mut left) = (4, word(blob, 0).unwrap_or(0));
    std::iter::from_fn(move || {
        left = left.checked_sub(1)?;
        let (number, counted) = (word(blob, at)?, word(blob, at + 1)?);
        let count = (counted & !NORMAL) as usize;
        at += words(count, number & APART != 0, counted & NORMAL != 0);
        Some(number & NUMBER)
    })
}

/// An iterator over the attributes of an entry. In an invalid record, the last item that it yields is `None`.
#[derive(Debug, Clone)]
pub struct Attributes<'a> {
    /// The object class flags.
    pub flags: u32,
    left: u32,
    words: &'a [u8],
    data: &'a [u8],
}

/// One attribute, which refers to the bytes of the record. The fields are those of [`Attribute`].
#[derive(Debug, Clone, Default)]
pub struct Stored<'a> {
    pub number: u32,
    pub sorted: bool,
    pub apart: bool,
    pub has_normals: bool,
    pub count: u32,
    values: Values<'a>,
    normals: Values<'a>,
}

/// An iterator over values whose lengths have been checked.
#[derive(Debug, Clone, Default)]
pub struct Values<'a> {
    lengths: &'a [u8],
    data: &'a [u8],
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Option<Stored<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            // Words after those of the last attribute mean that the record is damaged.
            return (!std::mem::take(&mut self.words).is_empty()).then_some(None);
        }
        self.left -= 1;
        let mut stored = Stored::default();
        let parsed = self.attribute(&mut stored);
        if parsed.is_none() {
            (self.left, self.words) = (0, &[]);
        }
        Some(parsed.map(|()| stored))
    }
}

impl<'a> Attributes<'a> {
    /// Stores the next attribute in `stored`.
    #[allow(clippy::inline_always, reason = "else each attribute goes through memory")]
    #[inline(always)]
    fn attribute(&mut self, stored: &mut Stored<'a>) -> Option<()> {
        let head = self.words(2)?;
        let (number, counted) = (word(head, 0)?, word(head, 1)?);
        stored.number = number & NUMBER;
        stored.sorted = number & SORTED != 0;
        stored.apart = number & APART != 0;
        stored.has_normals = counted & NORMAL != 0;
        stored.count = counted & !NORMAL;
        if stored.count > MOST_VALUES {
            return None;
        }
        let lengths = if stored.apart { 0 } else { stored.count as usize };
        stored.values.lengths = self.words(lengths)?;
        stored.normals.lengths = self.words(if stored.has_normals { lengths } else { 0 })?;
        self.data(&mut stored.values)?;
        self.data(&mut stored.normals)
    }

    #[inline]
    fn words(&mut self, count: usize) -> Option<&'a [u8]> {
        let (words, rest) = self.words.split_at_checked(4 * count)?;
        self.words = rest;
        Some(words)
    }

    /// Splits off the bytes of `values`. The lengths in `values` must already be set.
    #[inline]
    fn data(&mut self, values: &mut Values<'a>) -> Option<()> {
        let mut size = 0;
        for length in values.lengths.chunks_exact(4) {
            size += length_of(length) + 1;
        }
        let (data, rest) = self.data.split_at_checked(size)?;
        (values.data, self.data) = (data, rest);
        Some(())
    }
}

impl<'a> Stored<'a> {
    /// Returns the values, or an empty iterator if they are in id2v.
    pub fn values(&self) -> Values<'a> {
        self.values.clone()
    }

    /// Returns the normal forms, or the values if there are none. The iterator is empty if the values are in id2v.
    pub fn compared(&self) -> Values<'a> {
        if self.has_normals { self.normals.clone() } else { self.values.clone() }
    }

    /// Returns the lengths and the bytes of the values, then those of the normal forms. Two attributes with equal
    /// pieces have equal values.
    pub fn pieces(&self) -> [&'a [u8]; 4] {
        let Self { values, normals, .. } = self;
        [values.lengths, values.data, normals.lengths, normals.data]
    }

    /// Returns the normal form of the first value, if normal forms are stored.
    pub fn first_normal(&self) -> Option<&'a [u8]> {
        self.normals.clone().next()
    }

    /// Calls `see` with every value, unless the values are in id2v.
    #[inline]
    pub fn each_value(&self, mut see: impl FnMut(&'a [u8])) {
        let (mut lengths, mut data) = (self.values.lengths, self.values.data);
        while let Some((length, shorter)) = lengths.split_at_checked(4) {
            let Some((value, rest)) = data.split_at_checked(length_of(length) + 1) else { break };
            see(&value[..value.len() - 1]);
            (lengths, data) = (shorter, rest);
        }
    }

    fn attribute(&self) -> Attribute<'a> {
        let Self { number, sorted, apart, has_normals, count, .. } = *self;
        let (values, normals) = (self.values().collect(), self.normals.clone().collect());
        Attribute { number, sorted, apart, has_normals, count, values, normals }
    }
}

impl<'a> Values<'a> {
    /// Returns the bytes of all values, each followed by a NUL.
    pub fn bytes(&self) -> &'a [u8] {
        self.data
    }

    /// Returns whether each value is followed by a NUL.
    fn have_nuls(&self) -> bool {
        let mut end = 0;
        self.lengths.chunks_exact(4).all(|length| {
            end += length_of(length) + 1;
            self.data.get(end - 1) == Some(&0)
        })
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, lengths) = self.lengths.split_at_checked(4)?;
        let (value, data) = self.data.split_at_checked(length_of(length) + 1)?;
        (self.lengths, self.data) = (lengths, data);
        value.split_last().map(|(_, value)| value)
    }
}

#[inline]
fn length_of(word: &[u8]) -> usize {
    u32::from_le_bytes(word.try_into().unwrap_or_default()) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_record_with_unneeded_parts_is_not_whole() {
        let mut blob = Vec::new();
        let mut writer = Writer::new(&mut blob, words(2, false, false));
        writer.attribute(3, false, false, 2, false);
        writer.value(b"one");
        writer.value(b"two");
        writer.finish(0x100);
        assert!(StoredEntry::read_whole(&blob).is_some());
        let longer = [&blob[..], &[0; 8]].concat();
        assert!(read(&longer).is_some() && StoredEntry::read_whole(&longer).is_none());
        // Changes the number of slots, then the NUL after the first value.
        for at in [4, 16 + 4 * 4 + 3] {
            let mut other = blob.clone();
            other[at] ^= 1;
            assert!(read(&other).is_some() && StoredEntry::read_whole(&other).is_none());
        }
    }

    #[test]
    fn attributes_that_are_not_counted_are_damage() {
        let mut blob = Vec::new();
        let mut writer = Writer::new(&mut blob, 2 * words(1, false, false));
        for number in [3, 4] {
            writer.attribute(number, false, false, 1, false);
            writer.value(b"one");
        }
        writer.finish(0x100);
        for (fewer, met) in [(1, 1), (0, 0)] {
            blob[0] = fewer;
            let mut seen = 0;
            let see = |_: &Stored<'_>| {
                seen += 1;
                Ok(())
            };
            assert_eq!(each(&blob, || "damaged", see), Err("damaged"));
            assert_eq!((seen, read(&blob)), (met, None));
            assert!(attributes(&blob).unwrap().last().unwrap().is_none());
        }
    }

    fn attribute(number: u32, apart: bool, values: &[&'static [u8]]) -> Attribute<'static> {
        let kept = if apart { ValueList::new() } else { values.into() };
        let count = u32::try_from(values.len()).unwrap();
        let normals = kept.clone();
        Attribute { number, sorted: true, apart, has_normals: true, count, values: kept, normals }
    }

    #[test]
    fn numbers_change_and_nothing_else() {
        let one = |number| attribute(number, false, &[b"one", b"two2"]);
        let other = |number| attribute(number, true, &[b"x"]);
        let entry = |first, second| Parts { flags: 0x100, attributes: vec![one(first), other(second)] };
        let mut blob = write(&entry(3, 9));
        *blob.last_mut().unwrap() = 7;
        renumber(&mut blob, || (), |number| Ok(number + 70)).unwrap();
        assert_eq!(blob, write(&entry(73, 79)));
        assert_eq!(renumber(&mut blob, || 1, |_| Err(2)), Err(2));
        assert_eq!(renumber(&mut blob[..50], || 1, |_| Err(2)), Err(1));
    }

    proptest! {
        #[test]
        fn read_undoes_write(
            flags: u32,
            given in prop::collection::vec(
                (1u32..70_000, any::<bool>(), any::<bool>(), any::<bool>(),
                 prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..5)),
                0..6,
            ),
        ) {
            let mut blob = Vec::new();
            let attributes: Vec<Attribute<'_>> = given.iter().map(|(number, sorted, apart, has_normals, values)| {
                let bytes: ValueList<'_> = if *apart { ValueList::new() } else { values.iter().map(Vec::as_slice).collect() };
                let normals = if *has_normals { bytes.clone() } else { ValueList::new() };
                let count = u32::try_from(values.len()).unwrap();
                Attribute { number: *number, sorted: *sorted, apart: *apart, has_normals: *has_normals, count, values: bytes, normals }
            }).collect();
            let parts = Parts { flags, attributes };
            blob.extend(write(&parts));
            prop_assert_eq!(blob.len() % 8, 0);
            prop_assert!(StoredEntry::read_whole(&blob).is_some());
            prop_assert_eq!(read(&blob).unwrap(), parts);
        }
    }
}
