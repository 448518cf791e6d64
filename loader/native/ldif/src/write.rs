//! Writes attribute lines as slapcat does, but unfolded. slapcat uses base64 for more values than RFC 2849 requires.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Appends `description: value` and a line end, with the value in base64 if necessary.
pub fn line(out: &mut Vec<u8>, description: &[u8], value: &[u8]) {
    if is_safe(value) {
        out.extend_from_slice(description);
        out.extend_from_slice(if value.is_empty() { b":" } else { b": " });
        out.extend_from_slice(value);
        out.push(b'\n');
    } else {
        line_in_base64(out, description, value);
    }
}

/// Appends an attribute line whose value is always in base64.
pub fn line_in_base64(out: &mut Vec<u8>, description: &[u8], value: &[u8]) {
    out.extend_from_slice(description);
    out.extend_from_slice(b":: ");
    let start = out.len();
    out.resize(start + value.len().div_ceil(3) * 4, 0);
    // `out` was extended by exactly the encoded size.
    let written = STANDARD.encode_slice(value, &mut out[start..]).unwrap_or_default();
    out.truncate(start + written);
    out.push(b'\n');
}

/// Whether a value needs no base64: printable ASCII, no space at either end (RFC 2849, note 8), no leading `:` or `<`.
pub fn is_safe(value: &[u8]) -> bool {
    let Some((first, last)) = value.first().zip(value.last()) else { return true };
    is_printable(value) && !matches!(first, b' ' | b':' | b'<') && *last != b' '
}

/// Whether all bytes are from ` ` to `~`. Checks eight bytes at a time; the last eight may overlap those before.
pub fn is_printable(value: &[u8]) -> bool {
    let Some(end) = value.last_chunk() else {
        return value.iter().all(|byte| matches!(byte, b' '..=b'~'));
    };
    let eights = value.chunks_exact(8).map(|eight| eight.try_into().unwrap_or(*end));
    eights.fold(unprintable(*end), |found, eight| found | unprintable(eight)) == 0
}

/// Returns 0 if all bytes are from ` ` (0x20) to `~` (0x7e). Adding 1 to 0x7f sets its upper bit. Adding 0x60 to a byte
/// below 0x20 does not set its upper bit.
fn unprintable(bytes: [u8; 8]) -> u64 {
    const EACH: u64 = u64::from_ne_bytes([1; 8]);
    const UPPER: u64 = EACH << 7;
    let word = u64::from_ne_bytes(bytes);
    let low = word & !UPPER;
    // No carry crosses a byte, because all upper bits are cleared: 0x7f + 1 and 0x20 + 0x60 reach only 0x80.
    (word | (low + EACH) | !(low + EACH * 0x60)) & UPPER
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: &[u8]) -> String {
        let mut out = Vec::new();
        line(&mut out, b"cn", value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn safe_values_are_written_unchanged() {
        assert_eq!(written(b"a: <b> #c"), "cn: a: <b> #c\n");
        assert_eq!(written(b""), "cn:\n");
        assert_eq!(written(b"#a~ z"), "cn: #a~ z\n");
    }

    #[test]
    fn every_byte_is_checked_at_every_position() {
        for length in 1..20 {
            for at in 0..length {
                for byte in 0..=u8::MAX {
                    let mut value = vec![b'a'; length];
                    value[at] = byte;
                    assert_eq!(is_printable(&value), matches!(byte, b' '..=b'~'), "{value:?}");
                }
            }
        }
    }

    #[test]
    fn other_values_are_written_in_base64() {
        for value in [" a", "\ta", "a ", ":a", "<a", "a\nb", "a\rb", "a\0b", "a\x7f", "\u{e9}"] {
            let expected = format!("cn:: {}\n", STANDARD.encode(value));
            assert_eq!(written(value.as_bytes()), expected);
        }
    }
}
