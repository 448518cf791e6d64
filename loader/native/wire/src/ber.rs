//! The Basic Encoding Rules as LDAP uses them (RFC 4511, 5.1): definite lengths, tags of one byte. The reader checks
//! every tag and length, because a server may be broken or hostile.

use crate::{Error, Result};

pub const BOOLEAN: u8 = 0x01;
pub const INTEGER: u8 = 0x02;
pub const OCTETS: u8 = 0x04;
pub const ENUMERATED: u8 = 0x0a;
pub const SEQUENCE: u8 = 0x30;
pub const SET: u8 = 0x31;

/// An encoded value: its tag and its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element<'a> {
    pub tag: u8,
    pub body: &'a [u8],
}

/// Reads the elements of a constructed value one by one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub const fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the bytes that are not read yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.0
    }

    pub fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// Returns the next element if it has this tag and a one-byte length, as nearly all elements do.
    #[inline]
    fn short(&mut self, tag: u8) -> Option<&'a [u8]> {
        let &[found, length, ref rest @ ..] = self.0 else { return None };
        if found != tag || length >= 0x80 {
            return None;
        }
        let (body, rest) = rest.split_at_checked(usize::from(length))?;
        self.0 = rest;
        Some(body)
    }

    #[inline]
    pub fn element(&mut self) -> Result<Element<'a>> {
        let (header, length) = head(self.0)?.ok_or_else(cut)?;
        let tag = self.0[0];
        let body = self.0.get(header..).and_then(|rest| rest.get(..length)).ok_or_else(cut)?;
        self.0 = &self.0[header + length..];
        Ok(Element { tag, body })
    }

    /// Returns the content of the next element, which must have this tag.
    #[inline]
    pub fn expect(&mut self, tag: u8) -> Result<&'a [u8]> {
        match self.short(tag) {
            Some(body) => Ok(body),
            None => self.expect_any(tag),
        }
    }

    fn expect_any(&mut self, tag: u8) -> Result<&'a [u8]> {
        match self.element()? {
            Element { tag: own, body } if own == tag => Ok(body),
            Element { tag: own, .. } => Err(Error::protocol(format!("tag {own:#04x} instead of {tag:#04x}"))),
        }
    }

    /// Returns the content of the next element if it has this tag. Otherwise consumes nothing and returns `None`.
    pub fn optional(&mut self, tag: u8) -> Result<Option<&'a [u8]>> {
        if self.peek() == Some(tag) { self.expect(tag).map(Some) } else { Ok(None) }
    }

    #[inline]
    pub fn octets(&mut self) -> Result<&'a [u8]> {
        self.expect(OCTETS)
    }

    pub fn sequence(&mut self) -> Result<Self> {
        self.expect(SEQUENCE).map(Self)
    }

    pub fn integer(&mut self) -> Result<i32> {
        number(self.expect(INTEGER)?)
    }

    pub fn enumerated(&mut self) -> Result<i32> {
        number(self.expect(ENUMERATED)?)
    }

    /// Reads an optional BOOLEAN whose default is false.
    pub fn boolean(&mut self) -> Result<bool> {
        Ok(self.optional(BOOLEAN)?.is_some_and(|body| body.iter().any(|&byte| byte != 0)))
    }
}

/// Returns the length of the element at the start of `bytes`, including its header, or `None` if the header is
/// incomplete. The element must have the tag `tag` and at most `most` bytes.
pub fn frame(bytes: &[u8], tag: u8, most: usize) -> Result<Option<usize>> {
    if let Some(first) = bytes.first().filter(|first| **first != tag) {
        return Err(Error::protocol(format!("a message begins with {first:#04x}")));
    }
    let Some((header, length)) = head(bytes)? else { return Ok(None) };
    match header.checked_add(length) {
        Some(whole) if whole <= most => Ok(Some(whole)),
        _ => Err(Error::protocol(format!("a message of {length} bytes"))),
    }
}

/// Returns the size of an element's header and the length of its content, or `None` if the header is incomplete.
#[inline]
fn head(bytes: &[u8]) -> Result<Option<(usize, usize)>> {
    let [tag, first, ..] = *bytes else { return Ok(None) };
    if tag & 0x1f == 0x1f {
        return Err(Error::protocol("a tag of more than one byte"));
    }
    if first < 0x80 {
        return Ok(Some((2, usize::from(first))));
    }
    let count = usize::from(first & 0x7f);
    if count == 0 || count > 8 {
        return Err(Error::protocol(format!("a length in {count} bytes")));
    }
    let Some(digits) = bytes.get(2..2 + count) else { return Ok(None) };
    let length = digits.iter().fold(0_u64, |sum, &byte| (sum << 8) | u64::from(byte));
    let length = usize::try_from(length).map_err(|_| Error::protocol("a length that is too large"))?;
    Ok(Some((2 + count, length)))
}

fn number(body: &[u8]) -> Result<i32> {
    let negative = body.first().is_some_and(|&first| first & 0x80 != 0);
    if body.is_empty() || body.len() > 8 {
        return Err(Error::protocol(format!("a number of {} bytes", body.len())));
    }
    let start = if negative { -1_i64 } else { 0 };
    let value = body.iter().fold(start, |sum, &byte| (sum << 8) | i64::from(byte));
    i32::try_from(value).map_err(|_| Error::protocol(format!("{value} is out of range")))
}

fn cut() -> Error {
    Error::protocol("an element reaches beyond its end")
}

/// Appends encoded values to a buffer, which is reused for each message.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Appends bytes that are already encoded.
    pub fn raw(&mut self, encoded: &[u8]) {
        self.0.extend_from_slice(encoded);
    }

    pub fn tagged(&mut self, tag: u8, body: &[u8]) {
        self.0.push(tag);
        push_length(&mut self.0, body.len());
        self.0.extend_from_slice(body);
    }

    pub fn octets(&mut self, body: &[u8]) {
        self.tagged(OCTETS, body);
    }

    pub fn integer(&mut self, value: i32) {
        self.number(INTEGER, value);
    }

    pub fn enumerated(&mut self, value: i32) {
        self.number(ENUMERATED, value);
    }

    pub fn boolean(&mut self, value: bool) {
        self.tagged(BOOLEAN, &[if value { 0xff } else { 0 }]);
    }

    pub fn sequence(&mut self, fill: impl FnOnce(&mut Self)) {
        self.nest(SEQUENCE, fill);
    }

    /// Appends a constructed value; `fill` appends its content.
    pub fn nest(&mut self, tag: u8, fill: impl FnOnce(&mut Self)) {
        self.0.push(tag);
        let start = self.0.len();
        fill(self);
        let length = self.0.len() - start;
        // The size of the length field is not known before the content is written.
        push_length(&mut self.0, length);
        self.0[start..].rotate_left(length);
    }

    /// Appends the integer in the fewest bytes that keep its sign.
    fn number(&mut self, tag: u8, value: i32) {
        let bytes = value.to_be_bytes();
        let redundant = |at: &usize| {
            let sign = if bytes[*at + 1] & 0x80 == 0 { 0 } else { 0xff };
            bytes[*at] == sign
        };
        let skipped = (0..3).take_while(redundant).count();
        self.tagged(tag, &bytes[skipped..]);
    }
}

fn push_length(out: &mut Vec<u8>, length: usize) {
    if let Some(short) = u8::try_from(length).ok().filter(|&length| length < 0x80) {
        out.push(short);
        return;
    }
    let bytes = length.to_be_bytes();
    let digits = &bytes[bytes.iter().take_while(|&&byte| byte == 0).count()..];
    out.push(0x80 | u8::try_from(digits.len()).unwrap_or(8));
    out.extend_from_slice(digits);
}
