//! Bit strings, and names with one behind them (RFC 4517, 3.3.2 and 3.3.21).

/// Whether `value` is `'bits'B`.
pub fn is_bit_string(value: &[u8]) -> bool {
    let bits = value.strip_prefix(b"'").and_then(|rest| rest.strip_suffix(b"'B"));
    bits.is_some_and(|bits| bits.iter().all(|bit| matches!(bit, b'0' | b'1')))
}

/// Name and bit string. What follows the last `#` counts as one only if it has the form of one.
pub fn split(value: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memrchr(b'#', value) {
        Some(at) if is_bit_string(&value[at + 1..]) => (&value[..at], Some(&value[at + 1..])),
        _ => (value, None),
    }
}
