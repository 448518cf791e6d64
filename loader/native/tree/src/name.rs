//! Normalizes DNs: DNs that differ only in case, spaces and escapes (RFC 4514) get the same spelling.
//!
//! Without a schema, all values are compared as text that ignores ASCII case, and `cn` differs from `commonName`. No DN
//! is refused; slapadd decides whether it is valid.

use std::mem;

/// A parsed DN. One object is reused for all records, to avoid allocations.
#[derive(Debug, Default)]
pub struct ParsedDn {
    key: Vec<u8>,
    parent_at: usize,
    depth: usize,
    parts: Vec<Vec<u8>>,
    above: ParentCache,
}

/// The parent of the last DN; the next DN often has the same parent.
#[derive(Debug, Default)]
struct ParentCache {
    text: Vec<u8>,
    key: Vec<u8>,
    depth: usize,
}

impl ParsedDn {
    pub fn new(dn: &[u8]) -> Self {
        let mut name = Self::default();
        name.set(dn);
        name
    }

    pub fn set(&mut self, dn: &[u8]) {
        self.key.clear();
        self.depth = 0;
        self.parent_at = 0;
        if trim_spaces(dn).is_empty() {
            return;
        }
        let comma = unescaped(dn, b',');
        self.push_rdn(&dn[..comma.unwrap_or(dn.len())]);
        self.parent_at = self.key.len();
        self.depth = 1;
        if let Some(comma) = comma {
            self.set_parent(&dn[comma + 1..]);
            self.key.push(b',');
            self.key.extend_from_slice(&self.above.key);
            self.depth += self.above.depth;
        }
    }

    fn set_parent(&mut self, text: &[u8]) {
        if self.above.text == text && self.above.depth > 0 {
            return;
        }
        let own = mem::replace(&mut self.key, mem::take(&mut self.above.key));
        self.key.clear();
        self.above.depth = 0;
        for rdn in split(text, b',') {
            if self.above.depth > 0 {
                self.key.push(b',');
            }
            self.push_rdn(rdn);
            self.above.depth += 1;
        }
        self.above.key = mem::replace(&mut self.key, own);
        self.above.text.clear();
        self.above.text.extend_from_slice(text);
    }

    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the parent's normalized DN; empty if the DN has a single RDN.
    pub fn parent(&self) -> &[u8] {
        self.key.get(self.parent_at + 1..).unwrap_or_default()
    }

    /// Returns the number of RDNs.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Appends an RDN. The assertions of a multi-valued RDN have no order (X.501), so they are sorted.
    fn push_rdn(&mut self, rdn: &[u8]) {
        let mut pieces = split(rdn, b'+');
        let first = pieces.next().unwrap_or_default();
        let Some(second) = pieces.next() else {
            return push_assertion(&mut self.key, first);
        };
        let mut parts = mem::take(&mut self.parts);
        parts.clear();
        parts.extend([first, second].into_iter().chain(pieces).map(|piece| {
            let mut part = Vec::new();
            push_assertion(&mut part, piece);
            part
        }));
        parts.sort_unstable();
        self.key.extend_from_slice(&parts.join(&b'+'));
        self.parts = parts;
    }
}

/// Returns the parent's DN, as spelled in the child's DN.
pub fn parent_text(dn: &[u8]) -> &[u8] {
    let end = unescaped(dn, b',').map_or(dn.len(), |comma| comma + 1);
    trim_value(&dn[end..])
}

/// Returns the RDNs of a DN as spelled; the empty DN has none.
pub fn rdns(dn: &[u8]) -> impl Iterator<Item = &[u8]> {
    split(dn, b',').filter(move |_| !trim_spaces(dn).is_empty())
}

/// Whether a DN is `context` or below it. Both must be in the same normal form, with commas in values escaped.
pub fn is_within(dn: &[u8], context: &[u8]) -> bool {
    let above = dn.strip_suffix(context);
    above.is_some_and(|above| above.is_empty() || above.ends_with(b",") || context.is_empty())
}

fn unescaped(text: &[u8], separator: u8) -> Option<usize> {
    let mut escaped = false;
    text.iter().position(|&byte| {
        let found = byte == separator && !escaped;
        escaped = byte == b'\\' && !escaped;
        found
    })
}

fn split(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    pieces(text, move |text| unescaped(text, separator))
}

/// Splits the text at each separator; `end` returns the position of the next one. Yields at least one piece.
pub fn pieces(text: &[u8], end: impl Fn(&[u8]) -> Option<usize>) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = end(text);
        rest = end.map(|end| &text[end + 1..]);
        Some(&text[..end.unwrap_or(text.len())])
    })
}

/// Appends an assertion `type=value` in normal form.
fn push_assertion(key: &mut Vec<u8>, text: &[u8]) {
    let equals = text.iter().position(|&byte| byte == b'=');
    let (kind, value) = text.split_at(equals.unwrap_or(0));
    key.extend(trim_spaces(kind).iter().map(u8::to_ascii_lowercase));
    let value = match value {
        [b'=', value @ ..] => {
            key.push(b'=');
            value
        }
        value => value,
    };
    push_value(key, trim_value(value));
}

/// Appends a value without its escapes, except where a separator would result.
fn push_value(key: &mut Vec<u8>, mut value: &[u8]) {
    // A leading `#` is text if escaped; otherwise it introduces BER in hexadecimal.
    if matches!(value, [b'\\', b'#', ..] | [b'\\', b'2', b'3', ..]) {
        key.push(b'\\');
    }
    if !value.iter().any(|byte| matches!(byte, b',' | b'+' | b'\\')) {
        return key.extend(value.iter().map(u8::to_ascii_lowercase));
    }
    while let Some((byte, rest)) = unescape(value) {
        if matches!(byte, b',' | b'+' | b'\\') {
            key.push(b'\\');
        }
        key.push(byte.to_ascii_lowercase());
        value = rest;
    }
}

/// Returns the first byte of a value without its escape, and the rest of the value.
pub fn unescape(value: &[u8]) -> Option<(u8, &[u8])> {
    match value {
        [b'\\', high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
            Some(((hex_digit(*high) << 4) | hex_digit(*low), rest))
        }
        [b'\\', byte, rest @ ..] | [byte, rest @ ..] => Some((*byte, rest)),
        [] => None,
    }
}

fn hex_digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}

/// Removes spaces at both ends.
pub fn trim_spaces(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|&byte| byte != b' ').unwrap_or(text.len());
    let end = text.iter().rposition(|&byte| byte != b' ').map_or(start, |last| last + 1);
    &text[start..end]
}

/// Removes spaces at both ends, except an escaped space at the end.
pub fn trim_value(value: &[u8]) -> &[u8] {
    let trimmed = trim_spaces(value);
    let escapes = trimmed.iter().rev().take_while(|&&byte| byte == b'\\').count();
    if escapes % 2 == 0 {
        return trimmed;
    }
    let start = value.iter().take_while(|&&byte| byte == b' ').count();
    &value[start..(start + trimmed.len() + 1).min(value.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(dn: &str) -> String {
        String::from_utf8(ParsedDn::new(dn.as_bytes()).key().to_vec()).unwrap()
    }

    #[test]
    fn equal_dns_have_the_same_key() {
        assert_eq!(key("UID = Jo Doe , OU=People,dc=Example"), "uid=jo doe,ou=people,dc=example");
        for (one, other) in [
            (r"cn=Doe\, Jo,dc=x", r"cn=doe\2c jo,dc=x"),
            (r"cn=a\=b", "cn=a=b"),
            (r"cn=\c3\A9", "cn=é"),
            (r"cn=\41", "cn=a"),
            (r"cn=a\ ,dc=x", r"cn=a\20,dc=x"),
            (r"cn=a\   ,dc=x", r"cn=a\ ,dc=x"),
            (r"cn=\#0a", r"cn=\230a"),
            ("sn=b + cn=a,dc=x", "CN=a+SN=b,dc=x"),
        ] {
            assert_eq!(key(one), key(other));
        }
    }

    #[test]
    fn inner_spaces_and_significant_escapes_are_kept() {
        for (one, other) in [("cn=jo  doe", "cn=jo doe"), (r"cn=a\ ,dc=x", "cn=a ,dc=x"), (r"cn=\#0a", "cn=#0a")] {
            assert_ne!(key(one), key(other));
        }
    }

    #[test]
    fn the_parent_begins_after_an_unescaped_comma() {
        let name = ParsedDn::new(b"cn=a, OU=b ,dc=c");
        assert_eq!(name.parent(), ParsedDn::new(b"ou=B,dc=c").key());
        assert_eq!(parent_text(br"cn=a\,x, OU=b ,dc=c"), b"OU=b ,dc=c");
        assert_eq!(ParsedDn::new(b"dc=c").parent(), b"");
        assert_eq!((ParsedDn::new(b"").key(), ParsedDn::new(b"").depth()), (&b""[..], 0));
        assert_eq!(parent_text(b"dc=c"), b"");
        assert_eq!(parent_text(br"cn=a,ou=b\  "), br"ou=b\ ");
        // An escaped comma or plus sign does not separate RDNs or assertions.
        let name = ParsedDn::new(br"cn=a\,b\+c,dc=x");
        assert_eq!((name.parent(), name.depth()), (&b"dc=x"[..], 2));
        assert_eq!(ParsedDn::new(br"cn=a\\,dc=x").parent(), b"dc=x");
    }
}
