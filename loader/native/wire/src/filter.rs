//! Encodes search filters (RFC 4511, 4.5.1.7).

use values::filter::{Item, ItemKind, Node, parse};

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

/// Maximum nesting of filters. No filter that a person or ditseed writes is nested deeper.
const MOST_NESTED: usize = 100;
/// libldap's code for an invalid filter.
const FILTER_ERROR: i32 = -7;

/// Encodes a filter. As in ldapsearch, the outer parentheses of an item may be omitted.
pub fn encode(text: &str) -> Result<Vec<u8>> {
    let node = parse(text, MOST_NESTED).map_err(|why| {
        let text = format!("the filter {text} cannot be read: {why}");
        Failure::new(Phase::Request, FILTER_ERROR, text)
    })?;
    let mut out = Writer::default();
    write(&node, &mut out);
    Ok(out.bytes().to_vec())
}

fn write(node: &Node, out: &mut Writer) {
    match node {
        Node::And(nodes) => out.nest(AND, |out| nodes.iter().for_each(|node| write(node, out))),
        Node::Or(nodes) => out.nest(OR, |out| nodes.iter().for_each(|node| write(node, out))),
        Node::Not(node) => out.nest(NOT, |out| write(node, out)),
        Node::Item(Item { attribute, asks }) => write_item(attribute.as_bytes(), asks, out),
    }
}

fn write_item(name: &[u8], asks: &ItemKind, out: &mut Writer) {
    let mut compare = |tag, value: &[u8]| {
        out.nest(tag, |out| {
            out.octets(name);
            out.octets(value);
        });
    };
    match asks {
        ItemKind::Present => out.tagged(PRESENT, name),
        ItemKind::Equal(value) => compare(EQUAL, value),
        ItemKind::Approx(value) => compare(APPROXIMATE, value),
        ItemKind::AtLeast(value) => compare(GREATER, value),
        ItemKind::AtMost(value) => compare(LESS, value),
        ItemKind::Pieces(pieces) => out.nest(SUBSTRINGS, |out| {
            out.octets(name);
            out.sequence(|out| {
                for (at, piece) in pieces.iter().enumerate().filter(|(_, piece)| !piece.is_empty()) {
                    let tag = match at {
                        0 => INITIAL,
                        _ if at + 1 == pieces.len() => FINAL,
                        _ => ANY,
                    };
                    out.tagged(tag, piece);
                }
            });
        }),
        ItemKind::Extended { rule, dn, value } => out.nest(EXTENSIBLE, |out| {
            if let Some(rule) = rule {
                out.tagged(RULE, rule.as_bytes());
            }
            if !name.is_empty() {
                out.tagged(TYPE, name);
            }
            out.tagged(VALUE, value);
            if *dn {
                out.tagged(DN_ATTRIBUTES, &[0xff]);
            }
        }),
    }
}
