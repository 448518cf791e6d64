//! Parses search filters (RFC 4515) as libldap and slapd do (`libraries/libldap/filter.c`).

mod shape;

pub use shape::piece_lengths;

use crate::syntax::is_name;
use crate::{Result, refuse};

/// Maximum nesting of filters in slapd (`slap_max_filter_depth`).
pub const MAX_DEPTH: usize = 1000;

#[derive(Debug, PartialEq, Eq, Hash)]
pub enum Node {
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    Item(Item),
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Item {
    pub attribute: String,
    pub asks: ItemKind,
}

/// The assertion of an item. Values are unescaped.
#[derive(Debug, PartialEq, Eq, Hash)]
pub enum ItemKind {
    Present,
    Equal(Vec<u8>),
    Approx(Vec<u8>),
    AtLeast(Vec<u8>),
    AtMost(Vec<u8>),
    /// The pieces between asterisks. The first or last piece is empty if the value begins or ends with an asterisk.
    Pieces(Vec<Vec<u8>>),
    /// An extensible match, with the parts between the attribute and `:=`.
    Extended {
        rule: Option<String>,
        dn: bool,
        value: Vec<u8>,
    },
}

/// Parses a filter of at most `depth` levels. Like slapd, accepts a single item without parentheses.
pub fn parse(text: &str, depth: usize) -> Result<Node> {
    let text = text.trim_matches(' ');
    if !text.starts_with('(') {
        return item(text).map(Node::Item);
    }
    let mut parser = Parser { rest: text, depth };
    let node = parser.node(0)?;
    if parser.rest.trim_matches(' ').is_empty() { Ok(node) } else { refuse("something follows the filter") }
}

struct Parser<'a> {
    rest: &'a str,
    /// Maximum nesting.
    depth: usize,
}

impl Parser<'_> {
    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n']);
    }

    fn takes(&mut self, sign: char) -> bool {
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn closes(&mut self) -> Result<()> {
        self.skip_spaces();
        if self.takes(')') { Ok(()) } else { refuse("a parenthesis is not closed") }
    }

    fn node(&mut self, depth: usize) -> Result<Node> {
        if depth > self.depth {
            return refuse("nested too deeply");
        }
        self.skip_spaces();
        if !self.takes('(') {
            return refuse("a parenthesis is missing");
        }
        self.skip_spaces();
        let node = if self.takes('&') {
            Node::And(self.nodes(depth)?)
        } else if self.takes('|') {
            Node::Or(self.nodes(depth)?)
        } else if self.takes('!') {
            Node::Not(Box::new(self.node(depth + 1)?))
        } else {
            return self.item();
        };
        self.closes()?;
        Ok(node)
    }

    fn nodes(&mut self, depth: usize) -> Result<Vec<Node>> {
        let mut nodes = Vec::new();
        self.skip_spaces();
        while self.rest.starts_with('(') {
            nodes.push(self.node(depth + 1)?);
            self.skip_spaces();
        }
        Ok(nodes)
    }

    fn item(&mut self) -> Result<Node> {
        let mut escaped = false;
        let end = self.rest.find(|sign| {
            let is_end = sign == ')' && !escaped;
            escaped = sign == '\\' && !escaped;
            is_end
        });
        let Some(end) = end else { return refuse("a parenthesis is not closed") };
        let (text, rest) = self.rest.split_at(end);
        self.rest = &rest[1..];
        item(text).map(Node::Item)
    }
}

fn item(text: &str) -> Result<Item> {
    let Some((left, value)) = text.split_once('=') else {
        return refuse(format!("\"{text}\" has no \"=\""));
    };
    let (name, asks) = match left.as_bytes().last() {
        Some(b'<') => (&left[..left.len() - 1], ItemKind::AtMost(unescape(value)?)),
        Some(b'>') => (&left[..left.len() - 1], ItemKind::AtLeast(unescape(value)?)),
        Some(b'~') => (&left[..left.len() - 1], ItemKind::Approx(unescape(value)?)),
        Some(b':') => return extended(&left[..left.len() - 1], value),
        _ => (left, asks(value)?),
    };
    Ok(Item { attribute: described(name)?, asks })
}

fn asks(value: &str) -> Result<ItemKind> {
    if value == "*" {
        return Ok(ItemKind::Present);
    }
    let mut escaped = false;
    let bare = |sign: char| {
        let is_bare = sign == '*' && !escaped;
        escaped = sign == '\\' && !escaped;
        is_bare
    };
    let pieces = value.split(bare).map(unescape).collect::<Result<Vec<_>, _>>()?;
    if let [whole] = &pieces[..] {
        return Ok(ItemKind::Equal(whole.clone()));
    }
    if pieces[1..pieces.len() - 1].iter().any(Vec::is_empty) {
        return refuse(format!("\"{value}\" has two asterisks side by side"));
    }
    Ok(ItemKind::Pieces(pieces))
}

/// Parses `type[:dn][:rule]`, the part of an extensible match before `:=`.
fn extended(left: &str, value: &str) -> Result<Item> {
    let mut parts = left.split(':');
    let attribute = parts.next().filter(|name| !name.is_empty()).map(described).transpose()?;
    let attribute = attribute.unwrap_or_default();
    let mut parts: Vec<&str> = parts.collect();
    let dn = parts.first().is_some_and(|part| part.eq_ignore_ascii_case("dn"));
    if dn {
        parts.remove(0);
    }
    match parts[..] {
        [] if attribute.is_empty() => refuse("neither an attribute nor a matching rule"),
        [] | [_] => {
            let rule = parts.first().map(|rule| (*rule).to_owned());
            Ok(Item { attribute, asks: ItemKind::Extended { rule, dn, value: unescape(value)? } })
        }
        _ => refuse(format!("\"{left}:=\" is not an extensible match")),
    }
}

/// Returns the name, or an error if it has characters that attribute descriptions cannot have (`ldap_is_desc`).
fn described(name: &str) -> Result<String> {
    if name.starts_with(|sign: char| sign.is_ascii_alphanumeric()) && is_name(name.as_bytes()) {
        Ok(name.to_owned())
    } else {
        refuse(format!("\"{name}\" is not an attribute description"))
    }
}

/// Decodes `\xx`, and the older escapes `\*`, `\(`, `\)` and `\\`.
fn unescape(text: &str) -> Result<Vec<u8>> {
    let mut value = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        value.push(match byte {
            b'(' | b')' | b'*' => return refuse(format!("\"{text}\" has a bare parenthesis or asterisk")),
            b'\\' => match (bytes.next(), bytes.clone().next()) {
                (Some(sign @ (b'(' | b')' | b'*' | b'\\')), _) => sign,
                (Some(high), Some(low)) => {
                    bytes.next();
                    let digit = |byte: u8| char::from(byte).to_digit(16);
                    match digit(high).zip(digit(low)).map(|(high, low)| u8::try_from(high * 16 + low)) {
                        Some(Ok(byte)) => byte,
                        _ => return refuse(format!("\"{text}\" has an invalid escape")),
                    }
                }
                _ => return refuse(format!("\"{text}\" ends within an escape")),
            },
            byte => byte,
        });
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Node> {
        super::parse(text, MAX_DEPTH)
    }

    #[test]
    fn spellings_of_a_filter_are_equal() {
        for (one, other) in [
            ("a=b", "(a=b)"), // an item needs no parentheses
            (" (a=b) ", "(a=b)"),
            ("(& (a=b) (!(c=d)) )", "(&(a=b)(!(c=d)))"),
            (r"(cn=a\2ab\28c)", r"(cn=a\*b\(c)"),
        ] {
            assert_eq!(parse(one), parse(other));
            assert!(parse(one).is_ok());
        }
        assert_ne!(parse("(a= b)"), parse("(a=b)"), "spaces in values are significant");
        assert!(parse(&("(!".repeat(5000) + "(a=b)" + &")".repeat(5000))).is_err(), "nested too deeply");
    }
}
