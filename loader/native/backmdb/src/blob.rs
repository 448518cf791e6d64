//! The value of an entry in id2e: a head of little-endian words, then the values' bytes.
//!
//! Layout as `servers/slapd/back-mdb/id2entry.c` writes it: four words (attributes, value slots, object
//! class flags, words up to the data), for each attribute its number, its count and the lengths, and
//! then for each attribute all values and all normal forms, a NUL after each. Padded to 8 bytes, which
//! slapd leaves as they come and we make zero.

use crate::{Code, Error, Result};

/// Flags of an attribute's number: values in the order of their rule, values in id2v.
pub const SORTED: u32 = 0x8000_0000;
pub const APART: u32 = 0x4000_0000;
/// Flag of the count: normal forms follow the values.
pub const NORMAL: u32 = 0x8000_0000;
/// Without the flags.
pub const NUMBER: u32 = 0x3fff_ffff;
/// More values than any attribute has; their slots must be countable in 32 bits.
const MOST_VALUES: u32 = 1 << 28;

/// One attribute as it is stored. `normals` is empty where no normal forms are stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// In ad2i.
    pub number: u32,
    /// The values stand in the order of their equality rule (`sortvals`).
    pub sorted: bool,
    /// The values live in id2v (`multival`): here are none, but `count` is told.
    pub apart: bool,
    pub has_normals: bool,
    pub count: u32,
    pub values: Vec<&'a [u8]>,
    pub normals: Vec<&'a [u8]>,
}

/// Words that an attribute takes in the head.
pub const fn words(count: usize, apart: bool, normals: bool) -> usize {
    2 + if apart { 0 } else { count * if normals { 2 } else { 1 } }
}

/// Appends one entry's value to a buffer. How many words its head has must be known beforehand.
#[derive(Debug)]
pub struct Writer<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    words: usize,
    /// Where the next word goes.
    at: usize,
    attributes: u32,
    slots: u32,
}

impl<'o> Writer<'o> {
    /// `words`: the sum of [`words`] over all attributes that will come.
    pub fn new(out: &'o mut Vec<u8>, words: usize) -> Self {
        let start = out.len();
        out.resize(start + 16 + 4 * words, 0);
        Self { out, start, words, at: start + 16, attributes: 0, slots: 0 }
    }

    /// Begins an attribute; unless it is apart, its values follow with [`Self::value`], then its normal forms.
    pub fn attribute(&mut self, number: u32, sorted: bool, apart: bool, count: u32, normals: bool) {
        let flags = if sorted { SORTED } else { 0 } | if apart { APART } else { 0 };
        self.word(number | flags);
        self.word(count | if normals { NORMAL } else { 0 });
        self.attributes += 1;
        self.slots += (count + 1) * if normals { 2 } else { 1 };
    }

    #[inline]
    pub fn value(&mut self, value: &[u8]) {
        #[allow(clippy::cast_possible_truncation, reason = "a record is at most 256 MiB")]
        self.word(value.len() as u32);
        self.out.extend_from_slice(value);
        self.out.push(0);
    }

    #[inline]
    fn word(&mut self, word: u32) {
        self.out[self.at..self.at + 4].copy_from_slice(&word.to_le_bytes());
        self.at += 4;
    }

    /// All attributes are there.
    pub fn finish(mut self, flags: u32) {
        #[allow(
            clippy::cast_possible_truncation,
            reason = "far fewer words than bytes in a record"
        )]
        let head = [self.attributes, self.slots, flags, self.words as u32];
        self.at = self.start;
        for word in head {
            self.word(word);
        }
        let padded = (self.out.len() - self.start).next_multiple_of(8);
        self.out.resize(self.start + padded, 0);
    }
}

/// An entry's value taken apart: the object class flags, and the attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts<'a> {
    pub flags: u32,
    pub attributes: Vec<Attribute<'a>>,
}

/// Reads what [`Writer`] or slapd wrote; every count and length is checked against what is there.
pub fn read(blob: &[u8]) -> Result<Parts<'_>> {
    let [attributes, _, flags, words] = [0, 1, 2, 3].map(|at| word(blob, at));
    let words = words? as usize;
    let data_at = words.checked_mul(4).and_then(|bytes| bytes.checked_add(16));
    let data = data_at.and_then(|at| blob.get(at..)).ok_or_else(damaged)?;
    let mut reader = Reader { blob, at: 4, end: 4 + words, data };
    let mut found = Vec::new();
    for _ in 0..attributes? {
        found.push(reader.attribute()?);
    }
    Ok(Parts { flags: flags?, attributes: found })
}

/// The value again, from its parts.
pub fn write(parts: &Parts<'_>) -> Vec<u8> {
    let of = |one: &Attribute<'_>| words(one.values.len(), one.apart, one.has_normals);
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out, parts.attributes.iter().map(of).sum());
    for one in &parts.attributes {
        writer.attribute(one.number, one.sorted, one.apart, one.count, one.has_normals);
        for value in one.values.iter().chain(&one.normals) {
            writer.value(value);
        }
    }
    writer.finish(parts.flags);
    out
}

fn word(blob: &[u8], at: usize) -> Result<u32> {
    let bytes = blob.get(4 * at..4 * at + 4).ok_or_else(damaged)?;
    Ok(u32::from_le_bytes(bytes.try_into().unwrap_or_default()))
}

fn damaged() -> Error {
    Error::new(Code::Damaged, "an entry in id2e is damaged")
}

struct Reader<'a> {
    blob: &'a [u8],
    at: usize,
    end: usize,
    data: &'a [u8],
}

impl<'a> Reader<'a> {
    fn word(&mut self) -> Result<u32> {
        if self.at >= self.end {
            return Err(damaged());
        }
        self.at += 1;
        word(self.blob, self.at - 1)
    }

    fn attribute(&mut self) -> Result<Attribute<'a>> {
        let (number, count) = (self.word()?, self.word()?);
        let mut found = Attribute {
            number: number & NUMBER,
            sorted: number & SORTED != 0,
            apart: number & APART != 0,
            has_normals: count & NORMAL != 0,
            count: count & !NORMAL,
            ..Attribute::default()
        };
        if found.count > MOST_VALUES {
            return Err(damaged());
        }
        if !found.apart {
            let values = self.lengths(found.count)?;
            let normals = if found.has_normals { self.lengths(found.count)? } else { Vec::new() };
            found.values = self.take(&values)?;
            found.normals = self.take(&normals)?;
        }
        Ok(found)
    }

    fn lengths(&mut self, count: u32) -> Result<Vec<u32>> {
        if count as usize > self.end - self.at {
            return Err(damaged());
        }
        (0..count).map(|_| self.word()).collect()
    }

    fn take(&mut self, lengths: &[u32]) -> Result<Vec<&'a [u8]>> {
        let mut one = |length: &u32| {
            let length = *length as usize;
            let value = self.data.get(..length).ok_or_else(damaged)?;
            self.data = self.data.get(length + 1..).ok_or_else(damaged)?;
            Ok(value)
        };
        lengths.iter().map(&mut one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_entry_that_slapd_wrote_reads_as_it_is() {
        // ou=People of a real database, one attribute of it.
        let mut blob = Vec::new();
        let mut writer = Writer::new(&mut blob, words(1, false, true));
        writer.attribute(11, false, false, 1, true);
        writer.value(b"People");
        writer.value(b"people");
        writer.finish(0x100);
        let head = [1u32, 4, 0x100, 4, 11, 0x8000_0001, 6, 6];
        let words: Vec<u8> = head.iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(&blob[..words.len()], &words[..]);
        assert_eq!(&blob[words.len()..], b"People\0people\0\0\0");
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
            let attributes: Vec<Attribute<'_>> = given.iter().map(|(number, sorted, apart, has_normals, values)| {
                let bytes: Vec<&[u8]> = if *apart { vec![] } else { values.iter().map(Vec::as_slice).collect() };
                let normals = if *has_normals { bytes.clone() } else { vec![] };
                let count = u32::try_from(values.len()).unwrap();
                Attribute { number: *number, sorted: *sorted, apart: *apart, has_normals: *has_normals, count, values: bytes, normals }
            }).collect();
            let parts = Parts { flags, attributes };
            let blob = write(&parts);
            prop_assert_eq!(blob.len() % 8, 0);
            prop_assert_eq!(read(&blob).unwrap(), parts);
        }

        #[test]
        fn damage_is_an_error_or_another_entry_but_never_a_crash(blob in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&blob);
        }
    }
}
