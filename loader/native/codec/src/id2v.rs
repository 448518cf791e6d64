//! The table id2v: the values of attributes that have many of them (`multival`).
//!
//! ```text
//! key: | ID: 8 | number in ad2i: 2 |                 both in native byte order
//! row: | value | 0 | 0 0 |                           without normal forms
//!      | normal form | 0 | value | 0 | length: 2 |   with them; the length is the value's, little-endian
//! ```

use std::cmp::Ordering;

use lmdbfile::TableReader;

/// Returns the key of an entry's values of one attribute.
pub fn key(id: u64, number: u16) -> [u8; 10] {
    let mut key = [0; 10];
    key[..8].copy_from_slice(&id.to_ne_bytes());
    key[8..].copy_from_slice(&number.to_ne_bytes());
    key
}

/// Returns the rows of an entry's attribute. `number` is the attribute's number in id2e; back-mdb keeps its low 16
/// bits.
#[allow(clippy::cast_possible_truncation)]
pub fn rows(table: &TableReader<'_>, id: u64, number: u32) -> lmdbfile::Result<Vec<Vec<u8>>> {
    table.get_all(&key(id, number as u16))
}

/// Returns the entry's ID and the attribute's number; `None` unless `key` has exactly 10 bytes.
#[inline]
pub fn read_key(key: &[u8]) -> Option<(u64, u16)> {
    let (id, number) = key.split_first_chunk::<8>()?;
    Some((u64::from_ne_bytes(*id), u16::from_ne_bytes(number.try_into().ok()?)))
}

/// Compares keys by ID, then by number.
pub fn compare_keys(left: &[u8], right: &[u8]) -> Ordering {
    read_key(left).cmp(&read_key(right))
}

/// Returns the normal form and the value of a row, or the value twice if the attribute has no normal forms; `None` if
/// the row is invalid. id2e tells whether there are normal forms; the row does not, because its length field is also 0
/// if the value is empty.
pub fn read_row(row: &[u8], has_normals: bool) -> Option<(&[u8], &[u8])> {
    let (rest, length) = row.split_last_chunk::<2>()?;
    let length = usize::from(u16::from_le_bytes(*length));
    let rest = rest.strip_suffix(b"\0")?;
    if !has_normals {
        return (length == 0).then_some((rest, rest));
    }
    let (normal, value) = rest.split_at_checked(rest.len().checked_sub(length)?)?;
    Some((normal.strip_suffix(b"\0")?, value))
}

/// Returns a row. `normal` is `None` if the attribute has no normal forms.
pub fn row(normal: Option<&[u8]>, value: &[u8]) -> Vec<u8> {
    let mut record = normal.unwrap_or(value).to_vec();
    record.push(0);
    if normal.is_some() {
        record.extend_from_slice(value);
        record.push(0);
    }
    let length = if normal.is_some() { value.len() } else { 0 };
    let length = u16::try_from(length).unwrap_or(u16::MAX);
    record.extend_from_slice(&length.to_le_bytes());
    record
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn damaged_rows_are_refused() {
        for damaged in [&b""[..], b"\0", b"\0\0", b"Ann\0\x03\0", b"ann\0Ann\0\xff\xff"] {
            assert_eq!(read_row(damaged, true), None);
        }
        assert_eq!(read_row(b"ann\0Ann\0\x03\0", false), None);
    }

    #[test]
    fn keys_are_ordered_by_id_and_then_by_number() {
        assert_eq!(compare_keys(&key(1, 0x200), &key(2, 1)), Ordering::Less);
        assert_eq!(compare_keys(&key(2, 0x200), &key(2, 1)), Ordering::Greater);
        assert_eq!(read_key(&key(7, 3)[..9]), None);
        assert_eq!(read_key(&[&key(7, 3)[..], b"x"].concat()), None);
    }

    proptest! {
        #[test]
        fn read_undoes_row(normal: Option<Vec<u8>>, value: Vec<u8>, id: u64, number: u16) {
            let text = row(normal.as_deref(), &value);
            let expected = (normal.as_deref().unwrap_or(&value), value.as_slice());
            prop_assert_eq!(read_row(&text, normal.is_some()), Some(expected));
            prop_assert_eq!(read_key(&key(id, number)), Some((id, number)));
        }

        #[test]
        fn damage_never_crashes(text: Vec<u8>) {
            let _ = (read_row(&text, false), read_row(&text, true), read_key(&text));
        }
    }
}
