//! The rows of an index. A row has the entry IDs of a key, as a list or as a range.
//!
//! ```text
//! list:  | ID: 8 | ID: 8 | ...                 ascending, at most 2^idlexp - 1 of them
//! range: | 0: 8 | lowest: 8 | highest: 8 |     all in native byte order; no entry has the ID 0
//! ```
//!
//! Each ID is a separate value of the key in LMDB. If slapd adds an ID to a list of 2^idlexp - 1 IDs, the list becomes
//! a range, even if it already contains the ID. slapd reads a list into a buffer of that size without checking its
//! length.

use crate::id;

/// The kind of an index row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexRecord {
    List,
    /// All IDs from the first to the second, inclusive.
    Range(u64, u64),
    /// The row begins like a range, but does not have exactly two bounds.
    Damaged,
}

/// Returns the kind of the row whose first value is `first`. For a range, `next` must return the other values and then
/// `None`; for a list, `next` is not called.
pub fn begin<E>(first: u64, mut next: impl FnMut() -> Result<Option<u64>, E>) -> Result<IndexRecord, E> {
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

/// Returns the kind and the IDs of a row whose values are in memory; `None` if a value is not an ID.
pub fn read(values: &[impl AsRef<[u8]>]) -> Option<(IndexRecord, Vec<u64>)> {
    let ids: Vec<u64> = values.iter().map(|value| id::read(value.as_ref())).collect::<Option<_>>()?;
    let mut rest = ids.iter().copied();
    let first = rest.next().unwrap_or(1);
    let Ok(row) = begin(first, || Ok::<_, std::convert::Infallible>(rest.next()));
    Some((row, ids))
}

/// Returns whether slapd stores this number of IDs as a range.
pub const fn is_too_long(count: u64, exponent: u32) -> bool {
    count >= 1 << exponent
}

/// Builds the row of one key from its IDs.
#[derive(Debug)]
pub struct Writer {
    most: usize,
    ids: Vec<u64>,
    is_range: bool,
    range: [u64; 3],
}

impl Writer {
    /// `exponent` is the setting `idlexp`.
    pub const fn new(exponent: u32) -> Self {
        Self { most: (1 << exponent) - 1, ids: Vec::new(), is_range: false, range: [0, u64::MAX, 0] }
    }

    /// Begins the row of another key.
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

    /// Adds the last ID again, which turns a full list into a range, as in slapd.
    #[inline]
    pub fn again(&mut self) {
        if self.ids.len() >= self.most {
            self.widen([]);
        }
    }

    /// Turns the row into a range, and includes these IDs.
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

    /// Sorts the IDs, which is needed unless they were added in ascending order.
    pub fn sort(&mut self) {
        if !self.is_range {
            self.ids.sort_unstable();
        }
    }

    /// Returns the values of the row.
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
    fn adding_an_id_again_turns_a_full_list_into_a_range() {
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
