//! Entry IDs, which are the keys of id2e and dn2i and the values of indexes.
//!
//! ```text
//! | ID: 8 bytes, native byte order |
//! ```

/// Returns the ID; `None` unless there are exactly 8 bytes.
#[inline]
pub fn read(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_ne_bytes)
}

/// Returns the ID in the first 8 bytes of a key. The keys of id2v are longer than that.
#[inline]
pub fn first(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|id| u64::from_ne_bytes(*id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_eight_bytes() {
        let id = 0x0102_0304_0506_0708_u64;
        let bytes = id.to_ne_bytes();
        assert_eq!((read(&bytes), first(&bytes)), (Some(id), Some(id)));
        assert_eq!((read(&bytes[..7]), first(&bytes[..7])), (None, None));
        let longer = [&bytes[..], b"x"].concat();
        assert_eq!((read(&longer), first(&longer)), (None, Some(id)));
    }
}
