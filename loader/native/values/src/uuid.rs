//! UUIDs as text (RFC 4122, 3). How slapd reads values of that syntax is another matter: `normalise` takes hyphens anywhere.

/// Whether it is 32 hexadecimal digits of either case, with hyphens in their places.
pub fn is_spelled(text: &[u8]) -> bool {
    let fits = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.iter().enumerate().all(fits)
}

/// In lower case.
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
    fn digits_and_hyphens_have_their_places() {
        let text = spelled(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        assert_eq!(&text, b"01234567-89ab-cdef-0123-456789abcdef");
        assert!(is_spelled(&text) && is_spelled(&text.to_ascii_uppercase()));
        for wrong in [&text[1..], &text.map(|byte| if byte == b'-' { b'0' } else { byte })[..], b""]
        {
            assert!(!is_spelled(wrong));
        }
    }
}
