//! Writing attribute lines: never folded, base64 where RFC 2849 demands it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Appends `description: value` and a line end.
pub fn line(out: &mut Vec<u8>, description: &[u8], value: &[u8]) {
    out.extend_from_slice(description);
    if is_safe(value) {
        out.extend_from_slice(if value.is_empty() { b":" } else { b": " });
        out.extend_from_slice(value);
    } else {
        out.extend_from_slice(b":: ");
        out.extend_from_slice(STANDARD.encode(value).as_bytes());
    }
    out.push(b'\n');
}

/// SAFE-STRING of RFC 2849, no trailing space (its note 8), and nothing before the value that slapd's tools
/// take for space.
pub fn is_safe(value: &[u8]) -> bool {
    let safe_char = |&byte: &u8| byte < 0x80 && !matches!(byte, 0 | b'\n' | b'\r');
    !matches!(value.first(), Some(b' ' | b'\t'..=b'\r' | b':' | b'<'))
        && value.last() != Some(&b' ')
        && value.iter().all(safe_char)
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
        assert_eq!(written(b"#a\x7f\x01"), "cn: #a\x7f\x01\n");
    }

    #[test]
    fn others_stand_in_base64() {
        for value in [" a", "\ta", "a ", ":a", "<a", "a\nb", "a\rb", "a\0b", "\u{e9}"] {
            let expected = format!("cn:: {}\n", STANDARD.encode(value));
            assert_eq!(written(value.as_bytes()), expected);
        }
    }
}
