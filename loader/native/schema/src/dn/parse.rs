//! Parses DNs into attribute names and values: RFC 4514, and the other forms that libldap accepts.

use std::borrow::Cow;

use super::MAX_LENGTH;
use crate::{Result, refuse};

/// An assertion `type=value`: the name as written, and the unescaped value.
#[derive(Debug, PartialEq, Eq)]
pub struct RawAva<'a> {
    pub name: &'a [u8],
    pub value: Cow<'a, [u8]>,
    /// Whether the value was written as `#` and hexadecimal BER, which only slapd's syntax checks accept.
    pub ber: bool,
}

pub type RawRdn<'a> = Vec<RawAva<'a>>;

pub fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Returns all RDNs of a DN, beginning with the entry's own.
pub fn dn(text: &[u8]) -> Result<Vec<RawRdn<'_>>> {
    let mut rdns = Vec::new();
    let mut parser = Parser::new(text)?;
    while !text.is_empty() {
        rdns.push(parser.rdn()?);
        match parser.peek() {
            None => break,
            Some(b',' | b';') => parser.at += 1,
            Some(_) => return refuse("a closing quote is not followed by a separator"),
        }
    }
    Ok(rdns)
}

/// Parses the first RDN and ignores the rest.
pub fn leading_rdn(text: &[u8]) -> Result<RawRdn<'_>> {
    Parser::new(text)?.rdn()
}

/// Parses exactly one RDN.
pub fn rdn(text: &[u8]) -> Result<RawRdn<'_>> {
    let mut parser = Parser::new(text)?;
    let rdn = parser.rdn()?;
    match parser.peek() {
        None => Ok(rdn),
        Some(_) => refuse("more than one RDN"),
    }
}

/// Splits a DN into its first RDN and its parent, both unparsed. Returns `None` for the empty DN. If the DN has no
/// parent or cannot be split, returns it whole as the RDN, so that parsing both parts refuses the same DNs as
/// [`Schema::dn`](crate::Schema::dn).
pub fn split_leaf(text: &[u8]) -> Option<(&[u8], &[u8])> {
    if text.is_empty() {
        return None;
    }
    let whole = Some((text, &b""[..]));
    match leaf_end(text) {
        Some(end) if end + 1 < text.len() && text.len() <= MAX_LENGTH => Some((&text[..end], &text[end + 1..])),
        _ => whole,
    }
}

/// A position within an AVA. A quote opens a value only directly after `=` and spaces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AvaPosition {
    Name,
    Equals,
    Value,
    Quoted,
}

/// Returns the offset of the separator after the first RDN. In an attribute name, `;` begins options instead.
fn leaf_end(text: &[u8]) -> Option<usize> {
    let special = |byte: &u8| matches!(byte, b',' | b';' | b'+' | b'\\' | b'"');
    let first = text.iter().position(special)?;
    if text[first] == b',' {
        return Some(first);
    }
    let mut position = AvaPosition::Name;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        position = match (position, byte) {
            (_, b'\\') => {
                at += 1;
                if position == AvaPosition::Equals { AvaPosition::Value } else { position }
            }
            (AvaPosition::Quoted, b'"') => AvaPosition::Value,
            (AvaPosition::Quoted, _) | (AvaPosition::Equals, b'"') => AvaPosition::Quoted,
            (AvaPosition::Equals | AvaPosition::Value, b';') | (_, b',') => return Some(at),
            (_, b'+') => AvaPosition::Name,
            (AvaPosition::Name, b'=') => AvaPosition::Equals,
            (AvaPosition::Equals, byte) if is_space(byte) => AvaPosition::Equals,
            (AvaPosition::Name, _) => AvaPosition::Name,
            _ => AvaPosition::Value,
        };
        at += 1;
    }
    None
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a [u8]) -> Result<Self> {
        if memchr::memchr(0, text).is_some() {
            return refuse("a DN contains a NUL byte");
        }
        Ok(Self { text, at: 0 })
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_spaces(&mut self) {
        while self.peek().is_some_and(is_space) {
            self.at += 1;
        }
    }

    /// Parses AVAs up to the separator of the RDN or the end of the text.
    fn rdn(&mut self) -> Result<RawRdn<'a>> {
        let mut avas = Vec::with_capacity(1);
        loop {
            let name = self.name()?;
            let ber = self.peek() == Some(b'#');
            avas.push(RawAva { name, value: self.value()?, ber });
            if self.peek() != Some(b'+') {
                return Ok(avas);
            }
            self.at += 1;
        }
    }

    /// Parses an attribute name or OID and the `=` after it.
    fn name(&mut self) -> Result<&'a [u8]> {
        self.skip_spaces();
        let start = self.at;
        match self.peek() {
            Some(byte) if byte.is_ascii_digit() => self.skip(|byte| byte.is_ascii_digit() || byte == b'.'),
            Some(byte) if byte.is_ascii_alphabetic() => self.skip(is_name_byte),
            _ => return refuse("an RDN does not begin with an attribute type"),
        }
        let name = &self.text[start..self.at];
        if self.peek() == Some(b';') && name[0].is_ascii_alphabetic() {
            self.skip(|byte| byte == b';' || is_name_byte(byte));
        }
        self.skip_spaces();
        if self.peek() != Some(b'=') {
            return refuse("an RDN has no \"=\" after its attribute type");
        }
        self.at += 1;
        self.skip_spaces();
        Ok(name)
    }

    #[inline]
    fn skip(&mut self, belongs: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&belongs) {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Result<Cow<'a, [u8]>> {
        match self.peek() {
            Some(b'#') => self.hexadecimal(),
            Some(b'"') => self.quoted(),
            _ => self.string(),
        }
    }

    /// Parses a quoted value of LDAP version 2: a backslash makes the next character literal, even a hexadecimal digit.
    fn quoted(&mut self) -> Result<Cow<'a, [u8]>> {
        self.at += 1;
        let mut value = Vec::new();
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    self.at += 1;
                    let Some(next) = self.peek() else { return refuse("a quoted RDN value does not end") };
                    value.push(next);
                }
                Some(byte) => value.push(byte),
                None => return refuse("a quoted RDN value does not end"),
            }
            self.at += 1;
        }
        self.at += 1;
        self.skip_spaces();
        Ok(Cow::Owned(value))
    }

    /// Parses pairs of hexadecimal digits. A space and the text after it, up to the separator, are ignored.
    fn hexadecimal(&mut self) -> Result<Cow<'a, [u8]>> {
        let start = self.at + 1;
        self.skip(|byte| !is_value_end(byte));
        let raw = &self.text[start..self.at];
        let digits = &raw[..raw.iter().position(|&byte| is_space(byte)).unwrap_or(raw.len())];
        if digits.len() % 2 == 1 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return refuse("an RDN value after \"#\" is not hexadecimal");
        }
        Ok(Cow::Owned(digits.chunks_exact(2).map(|pair| hex_pair(pair[0], pair[1])).collect()))
    }

    fn string(&mut self) -> Result<Cow<'a, [u8]>> {
        let start = self.at;
        let mut escaped = false;
        while let Some(byte) = self.peek() {
            match byte {
                byte if is_value_end(byte) => break,
                b'"' | b'<' | b'>' => return refuse("an RDN value has an unescaped special character"),
                b'\\' => {
                    escaped = true;
                    self.at += escape_length(&self.text[self.at + 1..])?;
                }
                _ => {}
            }
            self.at += 1;
        }
        let raw = trim_end(&self.text[start..self.at]);
        Ok(if escaped { Cow::Owned(unescape(raw)) } else { Cow::Borrowed(raw) })
    }
}

/// Whether the text is an attribute name without options.
pub fn is_name(text: &[u8]) -> bool {
    text.first().is_some_and(u8::is_ascii_alphabetic) && text.iter().copied().all(is_name_byte)
}

#[inline]
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

fn is_value_end(byte: u8) -> bool {
    matches!(byte, b',' | b';' | b'+')
}

/// Converts two validated hexadecimal digits to a byte.
fn hex_pair(high: u8, low: u8) -> u8 {
    let digit = |byte: u8| char::from(byte).to_digit(16).map_or(0, |digit| digit.to_le_bytes()[0]);
    digit(high) << 4 | digit(low)
}

/// Whether a backslash may escape the character. Any other backslash must be followed by two hexadecimal digits.
fn may_escape(byte: u8) -> bool {
    matches!(byte, b'\\' | b',' | b';' | b'+' | b'"' | b'<' | b'>' | b'=' | b'#') || is_space(byte)
}

fn escape_length(after: &[u8]) -> Result<usize> {
    match after {
        [byte, ..] if may_escape(*byte) => Ok(1),
        [high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => Ok(2),
        _ => refuse("an RDN value has a backslash that escapes nothing"),
    }
}

/// Removes spaces at the end. As in libldap, the first byte stays, and a space after a backslash stays even if the
/// backslash is itself escaped.
fn trim_end(mut raw: &[u8]) -> &[u8] {
    while let [_, .., before, last] | [before, last] = raw {
        if !is_space(*last) || *before == b'\\' {
            break;
        }
        raw = &raw[..raw.len() - 1];
    }
    raw
}

/// Decodes the escapes of a value, which must be valid.
fn unescape(raw: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(raw.len());
    let mut rest = raw;
    loop {
        rest = match rest {
            [] => return value,
            [b'\\', byte, after @ ..] if may_escape(*byte) => {
                value.push(*byte);
                after
            }
            [b'\\', high, low, after @ ..] => {
                value.push(hex_pair(*high, *low));
                after
            }
            [byte, after @ ..] => {
                value.push(*byte);
                after
            }
        };
    }
}
