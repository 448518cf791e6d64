//! Syntaxes with an inner structure; what slapd's validators accept, which is not always what the
//! standards say.

use super::is_printable;
use crate::InvalidValue;
use crate::text::utf8;

/// Lines of text between `$`; `\24` and `\5C` are the only escapes.
pub fn postal_address(value: &[u8]) -> Result<(), InvalidValue> {
    let mut escapes = memchr::memchr_iter(b'\\', value).map(|at| &value[at + 1..]);
    let known = escapes.all(|tail| matches!(tail, [b'2', b'4', ..] | [b'5', b'C' | b'c', ..]));
    InvalidValue::unless(known, "an escape other than \\24 and \\5C")?;
    utf8::check(value)
}

/// Attribute descriptions and the like consist of these.
fn is_name(text: &[u8]) -> bool {
    text.iter().all(|&byte| byte.is_ascii_alphanumeric() || b"-.;".contains(&byte))
}

/// RFC 2307: `(host,user,domain)`, each part may be empty.
pub fn netgroup_triple(value: &[u8]) -> bool {
    let inner = value.strip_prefix(b"(").and_then(|rest| rest.strip_suffix(b")"));
    inner.is_some_and(|inner| {
        let parts = inner.split(|&byte| byte == b',');
        parts.clone().count() == 3 && parts.clone().all(is_name)
    })
}

/// RFC 2307: `key=server:path`.
pub fn boot_parameter(value: &[u8]) -> bool {
    let Some((key, rest)) = split_at_byte(value, b'=') else { return false };
    let Some((server, path)) = split_at_byte(rest, b':') else { return false };
    is_name(key) && is_name(server) && is_printable(path)
}

fn split_at_byte(text: &[u8], byte: u8) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr(byte, text)?;
    Some((&text[..at], &text[at + 1..]))
}

/// RFC 4517, 3.3.5: methods between `$`.
pub fn delivery_method(value: &[u8]) -> bool {
    const METHODS: [&[u8]; 10] = [
        b"any",
        b"mhs",
        b"physical",
        b"telex",
        b"teletex",
        b"telephone",
        b"g3fax",
        b"g4fax",
        b"ia5",
        b"videotex",
    ];
    // Spaces stand around `$` and nowhere else.
    let outer = [value.first(), value.last()];
    !outer.contains(&Some(&b' '))
        && value
            .split(|&byte| byte == b'$')
            .map(trim)
            .all(|part| METHODS.iter().any(|method| method.eq_ignore_ascii_case(part)))
}

fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] | [rest @ .., b' '] = text {
        text = rest;
    }
    text
}

const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;

/// PKCS #8, not encrypted (slapd's check always fails on encrypted keys): a sequence of version,
/// algorithm, key and, optionally, a set of attributes. slapd also takes some with wrong lengths.
pub fn private_key(value: &[u8]) -> bool {
    let inner = || {
        let (_, rest) = element(value, SEQUENCE).filter(|(behind, _)| behind.is_empty())?;
        let (rest, _) = element(rest, INTEGER)?;
        let (rest, _) = element(rest, SEQUENCE)?;
        let (rest, _) = element(rest, OCTETS)?;
        Some(element(rest, SET).map_or(rest, |(rest, _)| rest))
    };
    inner().is_some_and(<[u8]>::is_empty)
}

/// What follows the BER element at the head, and its contents.
fn element(text: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = text.strip_prefix(&[tag])?.split_first()?;
    let (length, rest) = match first {
        0..=0x7F => (usize::from(first), rest),
        0x81..=0x88 => {
            let (length, rest) = rest.split_at_checked(usize::from(first & 0x7F))?;
            let number = length.iter().fold(0, |number, &byte| number << 8 | u64::from(byte));
            (usize::try_from(number).ok()?, rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length).map(|(contents, rest)| (rest, contents))
}
