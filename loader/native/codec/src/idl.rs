//! The rows of an index: the IDs that a key has, as a list or as a range.
//!
//! ```text
//! list:  | ID: 8 | ID: 8 | ...                 ascending, at most 2^idlexp - 1 of them
//! range: | 0: 8 | lowest: 8 | highest: 8 |     all of the machine's byte order; no entry has the ID 0
//! ```
//!
//! Each ID is a value of its own in LMDB. slapd turns a list into a range when an ID is to be added and 2^idlexp - 1 are
//! there, be it among them or not. It reads a list into a buffer of that size without looking how long the list is.

use crate::id;

/// What stands under a key whose first value has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexRecord {
    /// The first value is the first ID, and the others follow.
    List,
    /// All IDs from the one to the other.
    Range(u64, u64),
    /// It begins as a range, and has not exactly two bounds.
    Damaged,
}

/// Reads a row from its first value on; `next` gives the values behind it, and is not asked where they are a list's.
pub fn begin<E>(
    first: u64,
    mut next: impl FnMut() -> Result<Option<u64>, E>,
) -> Result<IndexRecord, E> {
    if first != 0 {
        return Ok(IndexRecord::List);
    }
    let (low, high) = (next()?, next()?);
    let mut more = false;
    while next()?.is_some() {
        more = true;
    }
    Ok(match (low, high, more) {
        (Some(low), Some(high), false) => IndexRecord::Range(low, high),
        _ => IndexRecord::Damaged,
    })
}

/// A row whose values are all in memory, and their IDs; `None` when one of them is no ID.
pub fn read(values: &[impl AsRef<[u8]>]) -> Option<(IndexRecord, Vec<u64>)> {
    let ids: Vec<u64> = values.iter().map(|one| id::read(one.as_ref())).collect::<Option<_>>()?;
    let mut rest = ids.iter().copied();
    let first = rest.next().unwrap_or(1);
    let Ok(row) = begin(first, || Ok::<_, std::convert::Infallible>(rest.next()));
    Some((row, ids))
}

/// Does slapd keep so many IDs as a range?
pub const fn is_too_long(count: u64, exponent: u32) -> bool {
    count >= 1 << exponent
}

/// The row of one key while its IDs are added.
#[derive(Debug)]
pub struct Writer {
    most: usize,
    ids: Vec<u64>,
    is_range: bool,
    range: [u64; 3],
}

impl Writer {
    /// `exponent`: `idlexp`.
    pub const fn new(exponent: u32) -> Self {
        Self {
            most: (1 << exponent) - 1,
            ids: Vec::new(),
            is_range: false,
            range: [0, u64::MAX, 0],
        }
    }

    /// For the next key.
    pub fn clear(&mut self) {
        self.ids.clear();
        (self.is_range, self.range) = (false, [0, u64::MAX, 0]);
    }

    /// Adds an ID that has not been added before.
    #[inline]
    pub fn add(&mut self, id: u64) {
        if !self.is_range && self.ids.len() < self.most {
            self.ids.push(id);
        } else {
            self.widen([id]);
        }
    }

    /// Adds IDs that have not been added before.
    #[inline]
    pub fn add_all(&mut self, ids: impl ExactSizeIterator<Item = u64>) {
        if !self.is_range && self.ids.len() + ids.len() <= self.most {
            self.ids.extend(ids);
        } else {
            ids.for_each(|id| self.add(id));
        }
    }

    /// Adds the last ID again, which slapd does not notice before it makes a range.
    #[inline]
    pub fn again(&mut self) {
        if self.ids.len() >= self.most {
            self.widen([]);
        }
    }

    /// Makes it a range that has these IDs too.
    #[inline]
    pub fn widen(&mut self, ids: impl IntoIterator<Item = u64>) {
        let listed = if self.is_range { &[][..] } else { &self.ids };
        let [_, low, high] = &mut self.range;
        for id in listed.iter().copied().chain(ids) {
            (*low, *high) = (id.min(*low), id.max(*high));
        }
        self.is_range = true;
    }

    pub fn is_empty(&self) -> bool {
        if self.is_range { self.range[2] == 0 } else { self.ids.is_empty() }
    }

    /// Needed where the IDs did not come in their order.
    pub fn sort(&mut self) {
        if !self.is_range {
            self.ids.sort_unstable();
        }
    }

    /// The values of the row.
    pub fn row(&self) -> &[u64] {
        if self.is_range { &self.range } else { &self.ids }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn row(ids: &[u64]) -> Option<(IndexRecord, Vec<u64>)> {
        read(&ids.iter().map(|id| id.to_ne_bytes()).collect::<Vec<_>>())
    }

    #[test]
    fn a_range_has_two_bounds() {
        assert_eq!(row(&[0, 4, 9]).unwrap().0, IndexRecord::Range(4, 9));
        for damaged in [&[0][..], &[0, 4], &[0, 4, 9, 11]] {
            assert_eq!(row(damaged).unwrap().0, IndexRecord::Damaged);
        }
        assert_eq!(row(&[4, 9]), Some((IndexRecord::List, vec![4, 9])));
        assert_eq!(read(&[[0; 7]]), None);
    }

    #[test]
    fn attempts_make_a_range_of_a_full_list() {
        let mut writer = Writer::new(2);
        for id in [9, 4, 6] {
            writer.add(id);
        }
        writer.sort();
        assert_eq!(writer.row(), [4, 6, 9]);
        writer.again();
        assert_eq!(writer.row(), [0, 4, 9]);
        writer.clear();
        writer.add(7);
        writer.again();
        assert_eq!(writer.row(), [7]);
        for id in [8, 9, 3] {
            writer.add(id);
        }
        assert_eq!(writer.row(), [0, 3, 9]);
    }

    proptest! {
        #[test]
        fn read_undoes_write(ids in prop::collection::btree_set(1u64.., 1..12)) {
            let mut writer = Writer::new(3);
            for id in &ids {
                writer.add(*id);
            }
            let is_range = ids.len() > 7;
            let bounds = (*ids.first().unwrap(), *ids.last().unwrap());
            let expected = if is_range { IndexRecord::Range(bounds.0, bounds.1) } else { IndexRecord::List };
            let (found, values) = row(writer.row()).unwrap();
            prop_assert_eq!(found, expected);
            prop_assert!(is_range || values.into_iter().eq(ids));
        }
    }
}
