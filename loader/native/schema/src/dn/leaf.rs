//! The leaf of a DN, so that the parent's text can be looked up among those read before.

use super::MAX_LENGTH;
use super::parse::is_space;

/// Cuts a DN behind its first RDN: the text of the RDN and that of its parent, both still to be
/// read. `None` for the empty DN. What is no DN as a whole comes back whole in the first half, so
/// that reading the halves refuses the same DNs as [`Schema::dn`](crate::Schema::dn).
pub fn split_leaf(text: &[u8]) -> Option<(&[u8], &[u8])> {
    if text.is_empty() {
        return None;
    }
    let whole = Some((text, &b""[..]));
    match leaf_end(text) {
        Some(end) if end + 1 < text.len() && text.len() <= MAX_LENGTH => {
            Some((&text[..end], &text[end + 1..]))
        }
        _ => whole,
    }
}

/// Where in an AVA a byte stands. A quote opens a value only directly behind `=` and spaces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AvaPosition {
    Name,
    Equals,
    Value,
    Quoted,
}

/// Position of the separator behind the first RDN. In a name `;` begins options.
fn leaf_end(text: &[u8]) -> Option<usize> {
    let special = |byte: &u8| matches!(byte, b',' | b';' | b'+' | b'\\' | b'"');
    let first = text.iter().position(special)?;
    if text[first] == b',' {
        return Some(first);
    }
    let mut place = AvaPosition::Name;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        place = match (place, byte) {
            (_, b'\\') => {
                at += 1;
                if place == AvaPosition::Equals { AvaPosition::Value } else { place }
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
