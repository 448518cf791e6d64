//! Removes the values from filters, to group searches that differ only in values.

use std::fmt;

use super::{Item, ItemKind, Node};
use crate::keys::Substrings;

/// Maximum length of a piece in a shape. Longer pieces use the same index keys.
const LONGEST: usize = 8;

impl Node {
    /// Replaces each value by `x`. A piece of a substring match becomes one `x` per byte, up to the length of a key.
    /// The longest middle piece stands for all middle pieces.
    #[must_use]
    pub fn into_shape(self, lengths: &Substrings) -> Self {
        let all = |parts: Vec<Self>| parts.into_iter().map(|part| part.into_shape(lengths));
        match self {
            Self::And(parts) => Self::And(all(parts).collect()),
            Self::Or(parts) => Self::Or(all(parts).collect()),
            Self::Not(part) => Self::Not(Box::new(part.into_shape(lengths))),
            Self::Item(Item { attribute, asks }) => {
                Self::Item(Item { attribute: attribute.to_ascii_lowercase(), asks: asks.into_shape(lengths) })
            }
        }
    }
}

impl ItemKind {
    fn into_shape(self, lengths: &Substrings) -> Self {
        let value = || b"x".to_vec();
        match self {
            Self::Present => self,
            Self::Equal(_) => Self::Equal(value()),
            Self::Approx(_) => Self::Approx(value()),
            Self::AtLeast(_) => Self::AtLeast(value()),
            Self::AtMost(_) => Self::AtMost(value()),
            Self::Pieces(pieces) => {
                let [first, middle, last] = piece_lengths(&pieces);
                let (end, any) = (lengths.min.min(LONGEST), lengths.any.min(LONGEST));
                let mut shape =
                    [(first, end), (middle, any), (last, end)].map(|(length, most)| length.min(most)).to_vec();
                if shape[1] == 0 {
                    shape.remove(1);
                }
                Self::Pieces(shape.into_iter().map(|length| vec![b'x'; length]).collect())
            }
            Self::Extended { .. } => Self::Extended { rule: None, dn: false, value: value() },
        }
    }
}

/// Returns the lengths of the first, the longest middle and the last piece. A missing piece has the length 0.
pub fn piece_lengths(pieces: &[Vec<u8>]) -> [usize; 3] {
    let middle = pieces.get(1..pieces.len().saturating_sub(1)).unwrap_or_default();
    [
        pieces.first().map_or(0, Vec::len),
        middle.iter().map(Vec::len).max().unwrap_or(0),
        pieces.last().map_or(0, Vec::len),
    ]
}

/// Prints a filter without values, which needs no escapes.
impl fmt::Display for Node {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = |sign: char, parts: &[Self]| {
            write!(out, "({sign}")?;
            parts.iter().try_for_each(|part| write!(out, "{part}"))?;
            out.write_str(")")
        };
        let Item { attribute, asks } = match self {
            Self::And(parts) => return all('&', parts),
            Self::Or(parts) => return all('|', parts),
            Self::Not(part) => return write!(out, "(!{part})"),
            Self::Item(item) => item,
        };
        let (sign, value) = match asks {
            ItemKind::Present => ("", b"*".to_vec()),
            ItemKind::Equal(value) => ("", value.clone()),
            ItemKind::Approx(value) => ("~", value.clone()),
            ItemKind::AtLeast(value) => (">", value.clone()),
            ItemKind::AtMost(value) => ("<", value.clone()),
            ItemKind::Pieces(pieces) => ("", pieces.join(&b'*')),
            ItemKind::Extended { value, .. } => (":", value.clone()),
        };
        write!(out, "({attribute}{sign}={})", String::from_utf8_lossy(&value))
    }
}
