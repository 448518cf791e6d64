//! LDAP URLs as far as authorization rules may have them (`libraries/libldap/url.c`).

use values::{InvalidValue, refuse};

/// Base, scope and filter, decoded.
pub struct Url {
    pub base: Vec<u8>,
    pub scope: &'static str,
    pub filter: Option<Vec<u8>>,
}

/// Scopes by all their names (`ldap_pvt_str2scope`), and the name that is written.
const SCOPES: [(&str, &str); 8] = [
    ("base", "base"),
    ("one", "one"),
    ("onelevel", "one"),
    ("sub", "sub"),
    ("subtree", "sub"),
    ("subord", "subordinate"),
    ("subordinate", "subordinate"),
    ("children", "subordinate"),
];

/// `None` if the text does not begin as an LDAP URL does. A host, attributes and extensions are
/// refused, and so are the schemes for encrypted and local connections.
pub fn parse(text: &[u8]) -> Result<Option<Url>, InvalidValue> {
    let (enclosed, rest) = match text.strip_prefix(b"<") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let rest = super::after(rest, b"URL:").unwrap_or(rest);
    let schemes: [&[u8]; 4] = [b"ldaps://", b"ldapi://", b"pldap://", b"pldaps://"];
    if schemes.iter().any(|scheme| super::after(rest, scheme).is_some()) {
        return refuse("a URL of another scheme than ldap");
    }
    let Some(rest) = super::after(rest, b"ldap://") else { return Ok(None) };
    let rest = match (enclosed, rest.strip_suffix(b">")) {
        (true, Some(inner)) => inner,
        (true, None) => return refuse("a URL that begins with \"<\" and does not end with \">\""),
        (false, _) => rest,
    };
    let Some(rest) = rest.strip_prefix(b"/") else {
        return refuse("a URL with a host, or without a base");
    };
    parts(rest).map(Some)
}

/// `BASE?ATTRIBUTES?SCOPE?FILTER`
fn parts(rest: &[u8]) -> Result<Url, InvalidValue> {
    let mut parts = rest.split(|&byte| byte == b'?');
    let mut next = || parts.next().unwrap_or_default();
    let (base, attributes, scope, filter) = (next(), next(), next(), next());
    if !attributes.is_empty() || parts.next().is_some() {
        return refuse("a URL with attributes or extensions");
    }
    let decoded = decode(scope);
    let named = |(name, _): &&(&str, &str)| decoded.eq_ignore_ascii_case(name.as_bytes());
    let scope = match SCOPES.iter().find(named) {
        Some((_, written)) => written,
        None if scope.is_empty() => "base",
        None => return refuse("a URL with an unknown scope"),
    };
    let filter = Some(filter).filter(|text| !text.is_empty()).map(decode);
    Ok(Url { base: decode(base), scope, filter })
}

/// Without percent escapes; empty where one is none (`ldap_pvt_hex_unescape`).
fn decode(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit.to_le_bytes()[0]);
    loop {
        rest = match rest {
            [b'%', high, low, after @ ..] => {
                let Some((high, low)) = digit(*high).zip(digit(*low)) else { return Vec::new() };
                out.push(high << 4 | low);
                after
            }
            [b'%', ..] => return Vec::new(),
            [] => return out,
            [byte, after @ ..] => {
                out.push(*byte);
                after
            }
        };
    }
}

/// Appends the URL as libldap writes it.
pub fn write(base: &[u8], scope: &str, filter: Option<&[u8]>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"ldap:///");
    encode(base, out);
    out.extend_from_slice(b"??");
    out.extend_from_slice(scope.as_bytes());
    if let Some(filter) = filter {
        out.push(b'?');
        encode(filter, out);
    }
}

fn encode(text: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in text {
        if byte.is_ascii_alphanumeric() || b",/;:@&=+$-_.!~*'()".contains(&byte) {
            out.push(byte);
        } else {
            out.extend([b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
    }
}
