//! Normal forms of DNs that come again and again: millions of entries have the same creatorsName and modifiersName.

/// The last value of each column, and its normal form.
#[derive(Debug, Default)]
pub struct NormalFormCache(Vec<LastValue>);

#[derive(Debug, Default)]
struct LastValue {
    value: Vec<u8>,
    normal: Vec<u8>,
}

impl NormalFormCache {
    /// The normal form of `value` if it was the last one of its column.
    #[inline]
    pub fn normal(&self, column: usize, value: &[u8]) -> Option<&[u8]> {
        let last = self.0.get(column).filter(|last| !value.is_empty() && last.value == value);
        last.map(|last| last.normal.as_slice())
    }

    pub fn keep(&mut self, column: usize, value: &[u8], normal: &[u8]) {
        if self.0.len() <= column {
            self.0.resize_with(column + 1, LastValue::default);
        }
        let last = &mut self.0[column];
        last.value.clear();
        last.value.extend_from_slice(value);
        last.normal.clear();
        last.normal.extend_from_slice(normal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_knows_its_last_value() {
        let mut memo = NormalFormCache::default();
        memo.keep(2, b"cn=A", b"cn=a");
        memo.keep(0, b"cn=B", b"cn=b");
        assert_eq!(memo.normal(2, b"cn=A"), Some(&b"cn=a"[..]));
        assert_eq!(memo.normal(0, b"cn=A"), None);
        assert_eq!(memo.normal(1, b""), None);
        memo.keep(2, b"cn=C", b"cn=c");
        assert_eq!(memo.normal(2, b"cn=A"), None);
    }
}
