//! A filter without its values: how searches that differ in nothing else are told as one.

use std::fmt;

use values::keys::Substrings;

use crate::filter::{Item, ItemKind, Node};

/// More characters of a piece than this decide nothing.
const LONGEST: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Shape {
    And(Vec<Shape>),
    Or(Vec<Shape>),
    Not(Box<Shape>),
    /// The attribute description as it was asked for.
    Item(String, Asks),
}

/// What is asked of an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Asks {
    Present,
    Equal,
    Approx,
    AtLeast,
    AtMost,
    Pieces(Pieces),
    Extended,
}

/// Lengths in bytes, up to what makes a key, of the first piece, of the longest in the middle, and of the last; 0 is
/// none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pieces {
    pub first: usize,
    pub middle: usize,
    pub last: usize,
}

impl Shape {
    pub fn of(node: &Node, lengths: &Substrings) -> Self {
        let all = |parts: &[Node]| parts.iter().map(|part| Self::of(part, lengths)).collect();
        match node {
            Node::And(parts) => Self::And(all(parts)),
            Node::Or(parts) => Self::Or(all(parts)),
            Node::Not(part) => Self::Not(Box::new(Self::of(part, lengths))),
            Node::Item(Item { attribute, asks }) => {
                Self::Item(attribute.to_ascii_lowercase(), Asks::of(asks, lengths))
            }
        }
    }
}

impl Asks {
    fn of(asks: &ItemKind, lengths: &Substrings) -> Self {
        match asks {
            ItemKind::Present => Self::Present,
            ItemKind::Equal(_) => Self::Equal,
            ItemKind::Approx(_) => Self::Approx,
            ItemKind::AtLeast(_) => Self::AtLeast,
            ItemKind::AtMost(_) => Self::AtMost,
            ItemKind::Pieces(pieces) => Self::Pieces(Pieces::of(pieces, lengths)),
            ItemKind::Extended { .. } => Self::Extended,
        }
    }
}

impl Pieces {
    fn of(pieces: &[Vec<u8>], lengths: &Substrings) -> Self {
        let (end, any) = (lengths.min.min(LONGEST), lengths.any.min(LONGEST));
        let middle = pieces.get(1..pieces.len().saturating_sub(1)).unwrap_or_default();
        Self {
            first: pieces.first().map_or(0, Vec::len).min(end),
            middle: middle.iter().map(Vec::len).max().unwrap_or(0).min(any),
            last: pieces.last().map_or(0, Vec::len).min(end),
        }
    }
}

/// As a filter, with `x` where a value stood.
impl fmt::Display for Shape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = |sign: char, parts: &[Self]| {
            write!(out, "({sign}")?;
            parts.iter().try_for_each(|part| write!(out, "{part}"))?;
            out.write_str(")")
        };
        match self {
            Self::And(parts) => all('&', parts),
            Self::Or(parts) => all('|', parts),
            Self::Not(part) => write!(out, "(!{part})"),
            Self::Item(attribute, asks) => write!(out, "({attribute}{asks})"),
        }
    }
}

impl fmt::Display for Asks {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Pieces(pieces) = self else {
            return out.write_str(match self {
                Self::Present => "=*",
                Self::Approx => "~=x",
                Self::AtLeast => ">=x",
                Self::AtMost => "<=x",
                Self::Extended => ":=x",
                Self::Equal | Self::Pieces(_) => "=x",
            });
        };
        let piece = |length: usize| "x".repeat(length);
        write!(out, "={}*", piece(pieces.first))?;
        if pieces.middle > 0 {
            write!(out, "{}*", piece(pieces.middle))?;
        }
        out.write_str(&piece(pieces.last))
    }
}
