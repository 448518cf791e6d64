//! The value of an entry in id2e, with other numbers of attributes.

use std::ops::Range;

use backmdb::blob::{APART, NORMAL, NUMBER};

/// What an attribute says in the head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Where its number stands.
    pub at: usize,
    pub number: u32,
    pub apart: bool,
    /// Its values, a NUL after each, and the normal forms behind them.
    pub values: Range<usize>,
    pub normals: Range<usize>,
}

/// The attributes of an entry in their order, and where its last value ends; `None` when it is damaged.
/// The bytes behind the end are whatever slapd's memory held.
pub fn heads(blob: &[u8]) -> Option<(Vec<Head>, usize)> {
    let (count, words) = (word(blob, 0)?, word(blob, 3)? as usize);
    let mut data = words.checked_mul(4)?.checked_add(16)?;
    let end = data;
    let (mut at, mut found) = (16, Vec::new());
    for _ in 0..count {
        let (number, values) = (word(blob, at / 4)?, word(blob, at / 4 + 1)?);
        let mut head = Head {
            at,
            number: number & NUMBER,
            apart: number & APART != 0,
            values: data..data,
            normals: data..data,
        };
        at += 8;
        if !head.apart {
            let count = (values & !NORMAL) as usize;
            head.values = lengths(blob, &mut at, count, &mut data)?;
            let normals = if values & NORMAL == 0 { 0 } else { count };
            head.normals = lengths(blob, &mut at, normals, &mut data)?;
        }
        if at > end {
            return None;
        }
        found.push(head);
    }
    (at == end && data <= blob.len()).then_some((found, data))
}

fn lengths(blob: &[u8], at: &mut usize, count: usize, data: &mut usize) -> Option<Range<usize>> {
    let start = *data;
    for _ in 0..count {
        *data = data.checked_add(word(blob, *at / 4)? as usize + 1)?;
        *at += 4;
    }
    (*data <= blob.len()).then_some(start..*data)
}

fn word(blob: &[u8], index: usize) -> Option<u32> {
    let bytes = blob.get(4 * index..4 * index + 4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

/// Puts another number into a head, its flags kept.
pub fn renumber(blob: &mut [u8], head: &Head, new: u32) {
    if let Some(place) = blob.get_mut(head.at..head.at + 4) {
        let old = u32::from_le_bytes(place.try_into().unwrap_or_default());
        place.copy_from_slice(&((old & !NUMBER) | new).to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use backmdb::blob::{self, Attribute, Parts};
    use proptest::prelude::*;

    use super::*;

    fn attribute(number: u32, apart: bool, values: &[&'static [u8]]) -> Attribute<'static> {
        let kept = if apart { vec![] } else { values.to_vec() };
        let count = u32::try_from(values.len()).unwrap();
        let normals = kept.clone();
        Attribute { number, sorted: true, apart, has_normals: true, count, values: kept, normals }
    }

    #[test]
    fn numbers_change_and_nothing_else() {
        let mut parts = Parts {
            flags: 0x100,
            attributes: vec![attribute(3, false, &[b"one", b"two2"]), attribute(9, true, &[b"x"])],
        };
        let mut text = blob::write(&parts);
        let (found, end) = heads(&text).unwrap();
        assert_eq!(&text[found[0].values.clone()], b"one\0two2\0");
        assert_eq!(&text[found[0].normals.clone()], b"one\0two2\0");
        assert!(found[1].apart && text.len() - end < 8);
        for head in &found {
            renumber(&mut text, head, head.number + 70);
        }
        parts.attributes[0].number = 73;
        parts.attributes[1].number = 79;
        assert_eq!(blob::read(&text).unwrap(), parts);
    }

    proptest! {
        #[test]
        fn damage_never_crashes(blob in prop::collection::vec(0u8..5, 0..200)) {
            if let Some((found, end)) = heads(&blob) {
                prop_assert!(end <= blob.len());
                prop_assert!(found.iter().all(|head| head.normals.end <= blob.len()));
            }
        }
    }
}
