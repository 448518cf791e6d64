//! The table ad2i, which maps numbers from 1 on to attribute descriptions.
//!
//! ```text
//! key:   | number: 4 bytes, native byte order |
//! value: | description, without a NUL |
//! ```

/// Returns the number in `key`; `None` unless the key has exactly 4 bytes.
pub fn read(key: &[u8]) -> Option<u32> {
    key.try_into().ok().map(u32::from_ne_bytes)
}

pub const fn key(number: u32) -> [u8; 4] {
    number.to_ne_bytes()
}

/// Returns whether `key` has the number `before` + 1: the numbers in ad2i have no gaps.
pub fn follows(key: &[u8], before: usize) -> bool {
    read(key).is_some_and(|number| before.checked_add(1) == usize::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_count_from_one() {
        assert!(follows(&key(1), 0) && follows(&key(9), 8));
        assert!(!follows(&key(0), 0) && !follows(&key(2), 0) && !follows(&key(9), usize::MAX));
        assert!(!follows(&key(1)[..3], 0) && !follows(&[1, 0, 0, 0, 0], 0));
        assert_eq!(read(&key(70_000)), Some(70_000));
    }
}
