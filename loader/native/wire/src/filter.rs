//! Encodes search filters (RFC 4511, 4.5.1.7) from text (RFC 4515).

use crate::ber::Writer;
use crate::{Failure, Phase, Result};

const AND: u8 = 0xa0;
const OR: u8 = 0xa1;
const NOT: u8 = 0xa2;
const EQUAL: u8 = 0xa3;
const SUBSTRINGS: u8 = 0xa4;
const GREATER: u8 = 0xa5;
const LESS: u8 = 0xa6;
const PRESENT: u8 = 0x87;
const APPROXIMATE: u8 = 0xa8;
const EXTENSIBLE: u8 = 0xa9;

// Parts of a substring filter and of an extensible match.
const INITIAL: u8 = 0x80;
const ANY: u8 = 0x81;
const FINAL: u8 = 0x82;
const RULE: u8 = 0x81;
const TYPE: u8 = 0x82;
const VALUE: u8 = 0x83;
const DN_ATTRIBUTES: u8 = 0x84;

/// Maximum nesting, which limits recursion; no filter written by a person or by ditseed is nested deeper.
const MOST_NESTED: usize = 100;

/// libldap's code for an invalid filter.
const FILTER_ERROR: i32 = -7;

/// Encodes a filter. As in ldapsearch, the outer parentheses may be omitted.
pub fn encode(text: &str) -> Result<Vec<u8>> {
    let whole = if text.starts_with('(') { text.to_owned() } else { format!("({text})") };
    let mut parser = Parser { text, rest: whole.as_bytes() };
    let mut out = Writer::default();
    parser.filter(&mut out, 0)?;
    if parser.rest.is_empty() {
        Ok(out.bytes().to_vec())
    } else {
        parser.refuse("other text follows it")
    }
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a [u8],
}

impl Parser<'_> {
    fn filter(&mut self, out: &mut Writer, depth: usize) -> Result<()> {
        if depth > MOST_NESTED {
            return self.refuse("it is nested too deeply");
        }
        self.take(b'(')?;
        match self.rest.first() {
            Some(b'&') => self.list(AND, out, depth)?,
            Some(b'|') => self.list(OR, out, depth)?,
            Some(b'!') => self.not(out, depth)?,
            _ => self.item(out)?,
        }
        self.take(b')')
    }

    fn list(&mut self, tag: u8, out: &mut Writer, depth: usize) -> Result<()> {
        self.rest = &self.rest[1..];
        let mut inside = Writer::default();
        while self.rest.first() == Some(&b'(') {
            self.filter(&mut inside, depth + 1)?;
        }
        out.tagged(tag, inside.bytes());
        Ok(())
    }

    fn not(&mut self, out: &mut Writer, depth: usize) -> Result<()> {
        self.rest = &self.rest[1..];
        let mut inside = Writer::default();
        self.filter(&mut inside, depth + 1)?;
        out.tagged(NOT, inside.bytes());
        Ok(())
    }

    fn item(&mut self, out: &mut Writer) -> Result<()> {
        let end = self.rest.iter().position(|byte| b"()".contains(byte));
        let (item, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest;
        let Some(equals) = item.iter().position(|&byte| byte == b'=') else {
            return self.refuse("a comparison lacks its \"=\"");
        };
        let (left, right) = (&item[..equals], &item[equals + 1..]);
        match left.split_last() {
            Some((b'>', name)) => self.comparison(GREATER, name, right, out),
            Some((b'<', name)) => self.comparison(LESS, name, right, out),
            Some((b'~', name)) => self.comparison(APPROXIMATE, name, right, out),
            Some((b':', matching)) => self.extensible(matching, right, out),
            _ if right == b"*" => {
                self.expect_name(left)?;
                out.tagged(PRESENT, left);
                Ok(())
            }
            _ if right.contains(&b'*') => self.substrings(left, right, out),
            _ => self.comparison(EQUAL, left, right, out),
        }
    }

    fn comparison(&self, tag: u8, name: &[u8], value: &[u8], out: &mut Writer) -> Result<()> {
        self.expect_name(name)?;
        let value = self.unescape(value)?;
        out.nest(tag, |out| {
            out.octets(name);
            out.octets(&value);
        });
        Ok(())
    }

    fn substrings(&self, name: &[u8], pattern: &[u8], out: &mut Writer) -> Result<()> {
        self.expect_name(name)?;
        let pieces: Vec<&[u8]> = pattern.split(|&byte| byte == b'*').collect();
        let last = pieces.len() - 1;
        let mut inside = Writer::default();
        for (at, piece) in pieces.iter().enumerate().filter(|(_, piece)| !piece.is_empty()) {
            let tag = if at == 0 {
                INITIAL
            } else if at == last {
                FINAL
            } else {
                ANY
            };
            inside.tagged(tag, &self.unescape(piece)?);
        }
        if inside.bytes().is_empty() {
            return self.refuse("a pattern of nothing but \"*\"");
        }
        out.nest(SUBSTRINGS, |out| {
            out.octets(name);
            out.sequence(|out| out.raw(inside.bytes()));
        });
        Ok(())
    }

    /// Encodes an extensible match `[attribute][:dn][:rule]`, which has at least an attribute or a rule.
    fn extensible(&self, matching: &[u8], value: &[u8], out: &mut Writer) -> Result<()> {
        let mut parts = matching.split(|&byte| byte == b':');
        let name = parts.next().unwrap_or_default();
        let (mut with_dn, mut rule) = (false, &b""[..]);
        for part in parts {
            if part.eq_ignore_ascii_case(b"dn") && !with_dn && rule.is_empty() {
                with_dn = true;
            } else if rule.is_empty() {
                self.expect_name(part)?;
                rule = part;
            } else {
                return self.refuse("an extensible match has two rules");
            }
        }
        if !name.is_empty() || rule.is_empty() {
            self.expect_name(name)?;
        }
        let value = self.unescape(value)?;
        out.nest(EXTENSIBLE, |out| {
            [(RULE, rule), (TYPE, name)]
                .into_iter()
                .filter(|(_, part)| !part.is_empty())
                .for_each(|(tag, part)| out.tagged(tag, part));
            out.tagged(VALUE, &value);
            if with_dn {
                out.tagged(DN_ATTRIBUTES, &[0xff]);
            }
        });
        Ok(())
    }

    /// Returns an error unless `name` is an attribute description or the OID of a matching rule.
    fn expect_name(&self, name: &[u8]) -> Result<()> {
        let letter = |byte: &u8| byte.is_ascii_alphanumeric() || b"-;._".contains(byte);
        if !name.is_empty() && name.iter().all(letter) {
            return Ok(());
        }
        self.refuse(&format!("{:?} is not an attribute description", String::from_utf8_lossy(name)))
    }

    /// Decodes the escapes of RFC 4515. The crate `select` also accepts older escapes, as slapd does.
    fn unescape(&self, value: &[u8]) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(value.len());
        let mut bytes = value.iter();
        while let Some(&byte) = bytes.next() {
            if byte != b'\\' {
                out.push(byte);
                continue;
            }
            let mut digit = || bytes.next().and_then(|&digit| char::from(digit).to_digit(16));
            match (digit(), digit()) {
                (Some(high), Some(low)) => out.push(u8::try_from(high * 16 + low).unwrap_or(0)),
                _ => return self.refuse("\"\\\" must be followed by two hexadecimal digits"),
            }
        }
        Ok(out)
    }

    fn take(&mut self, wanted: u8) -> Result<()> {
        match self.rest.split_first() {
            Some((&first, rest)) if first == wanted => {
                self.rest = rest;
                Ok(())
            }
            _ => self.refuse(&format!("\"{}\" is missing", char::from(wanted))),
        }
    }

    fn refuse<T>(&self, why: &str) -> Result<T> {
        let text = format!("the filter {} cannot be read: {why}", self.text);
        Err(Failure::new(Phase::Request, FILTER_ERROR, text).into())
    }
}
