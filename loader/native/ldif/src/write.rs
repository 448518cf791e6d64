//! Writing attribute lines as slapcat has them: never folded, base64 where RFC 2849 demands it and some more.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Appends `description: value` and a line end.
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

/// The same with the value in base64, whatever it is.
pub fn line_in_base64(out: &mut Vec<u8>, description: &[u8], value: &[u8]) {
    out.extend_from_slice(description);
    out.extend_from_slice(b":: ");
    let start = out.len();
    out.resize(start + value.len().div_ceil(3) * 4, 0);
    // The room is exactly what it takes.
    let written = STANDARD.encode_slice(value, &mut out[start..]).unwrap_or_default();
    out.truncate(start + written);
    out.push(b'\n');
}

/// Printable ASCII, no space at its ends (RFC 2849, note 8), no `:` or `<` at its beginning.
pub fn is_safe(value: &[u8]) -> bool {
    let Some((first, last)) = value.first().zip(value.last()) else { return true };
    // Without a way out of the loop it becomes vector instructions.
    let bad = value.iter().fold(false, |bad, byte| bad | !matches!(byte, b' '..=b'~'));
    !bad && !matches!(first, b' ' | b':' | b'<') && *last != b' '
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
    fn safe_values_stand_as_they_are() {
        assert_eq!(written(b"a: <b> #c"), "cn: a: <b> #c\n");
        assert_eq!(written(b""), "cn:\n");
        assert_eq!(written(b"#a~ z"), "cn: #a~ z\n");
    }

    #[test]
    fn others_stand_in_base64() {
        for value in [" a", "\ta", "a ", ":a", "<a", "a\nb", "a\rb", "a\0b", "a\x7f", "\u{e9}"] {
            let expected = format!("cn:: {}\n", STANDARD.encode(value));
            assert_eq!(written(value.as_bytes()), expected);
        }
    }
}
