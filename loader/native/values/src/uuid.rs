//! UUIDs as text (RFC 4122, 3). slapd's normalizer accepts more texts, with hyphens anywhere (`normalise.rs`).

/// The value in [`DIGITS`] of a byte that is not a hexadecimal digit.
pub(crate) const NO_DIGIT: u8 = 0x40;

/// The value of each byte as a hexadecimal digit.
pub(crate) const DIGITS: [u8; 256] = {
    let mut table = [NO_DIGIT; 256];
    let mut digit = 0;
    while digit < 16 {
        let byte = b"0123456789abcdef"[digit as usize];
        table[byte as usize] = digit;
        table[byte.to_ascii_uppercase() as usize] = digit;
        digit += 1;
    }
    table
};

/// Returns the octets of a UUID. Returns `None` unless `text` is 32 hexadecimal digits in either case, with hyphens at
/// the standard positions.
pub fn octets(text: &[u8]) -> Option<[u8; 16]> {
    const POSITIONS: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
    let text: &[u8; 36] = text.try_into().ok()?;
    let mut seen = 0;
    let octets = POSITIONS.map(|at| {
        let [high, low] = [text[at], text[at + 1]].map(|byte| DIGITS[usize::from(byte)]);
        seen |= high | low;
        high << 4 | low
    });
    (seen < 16 && [8, 13, 18, 23].iter().all(|at| text[*at] == b'-')).then_some(octets)
}

/// Returns the text of a UUID in lower case.
pub fn spelled(bits: u128) -> [u8; 36] {
    let mut text = [b'-'; 36];
    let mut at = 0;
    for (number, byte) in bits.to_be_bytes().iter().enumerate() {
        if matches!(number, 4 | 6 | 8 | 10) {
            at += 1;
        }
        text[at] = b"0123456789abcdef"[usize::from(byte >> 4)];
        text[at + 1] = b"0123456789abcdef"[usize::from(byte & 15)];
        at += 2;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_and_hyphens_must_be_in_place() {
        let text = spelled(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        assert_eq!(&text, b"01234567-89ab-cdef-0123-456789abcdef");
        assert!(octets(&text).is_some());
        let bits = octets(&text.to_ascii_uppercase()).map(u128::from_be_bytes);
        assert_eq!(bits, Some(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef));
        let changed = |from, to| text.map(|byte| if byte == from { to } else { byte });
        for wrong in [changed(b'-', b'0'), changed(b'1', b'-'), changed(b'f', b'g')] {
            assert_eq!(octets(&wrong), None);
        }
        for wrong in [&text[1..], b"", &[b'~'; 36]] {
            assert_eq!(octets(wrong), None);
        }
    }
}
