//! UUIDs as text (RFC 4122, 3). slapd's normalizer is more tolerant (`normalise`): it accepts hyphens anywhere.

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

/// Whether `text` is 32 hexadecimal digits in either case, with hyphens at the standard positions.
pub fn is_spelled(text: &[u8]) -> bool {
    octets(text).is_some()
}

/// Returns the octets of a UUID, or `None` unless [`is_spelled`] is true for `text`.
pub fn octets(text: &[u8]) -> Option<[u8; 16]> {
    const PLACES: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
    let text: &[u8; 36] = text.try_into().ok()?;
    let mut met = 0;
    let octets = PLACES.map(|at| {
        let [high, low] = [text[at], text[at + 1]].map(|byte| DIGITS[usize::from(byte)]);
        met |= high | low;
        high << 4 | low
    });
    (met < 16 && [8, 13, 18, 23].iter().all(|at| text[*at] == b'-')).then_some(octets)
}

/// Returns the text of a UUID in lower case.
pub fn spelled(bits: u128) -> [u8; 36] {
    let mut text = [b'-'; 36];
    let mut at = 0;
    for (place, byte) in bits.to_be_bytes().iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
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
        assert!(is_spelled(&text) && is_spelled(&text.to_ascii_uppercase()));
        let bits = octets(&text.to_ascii_uppercase()).map(u128::from_be_bytes);
        assert_eq!(bits, Some(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef));
        let changed = |from, to| text.map(|byte| if byte == from { to } else { byte });
        for wrong in [changed(b'-', b'0'), changed(b'1', b'-'), changed(b'f', b'g')] {
            assert!(!is_spelled(&wrong));
        }
        assert!(!is_spelled(&text[1..]) && !is_spelled(b"") && !is_spelled(&[b'~'; 36]));
    }
}
