//! The order of values, and names with an optional bit string (RFC 4517, 3.3.2 and 3.3.21).

use std::cmp::Ordering;

/// The order in which slapd's equality rules put unequal values in id2v and for `sortvals` (slapd-mdb(5),
/// slapd.conf(5)). If the rule has a normalizer, values are compared in normal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Shorter values first, then by bytes: DNs, and all rules without an order below.
    Octets,
    /// By number: integerMatch.
    Integer,
    /// Longer values first, so that FALSE precedes TRUE: booleanMatch.
    Boolean,
    /// Values with a part `#'bits'B` first, ordered by that part and then by DN: uniqueMemberMatch.
    NameUid,
}

impl Order {
    pub fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Self::Octets => octets(a, b),
            Self::Integer => integers(a, b),
            Self::Boolean => b.len().cmp(&a.len()),
            Self::NameUid => names(a, b),
        }
    }
}

fn octets(a: &[u8], b: &[u8]) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

/// Compares decimal numbers without leading zeros.
fn integers(a: &[u8], b: &[u8]) -> Ordering {
    match (a.strip_prefix(b"-"), b.strip_prefix(b"-")) {
        (None, None) => octets(a, b),
        (Some(a), Some(b)) => octets(b, a),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

fn names(a: &[u8], b: &[u8]) -> Ordering {
    let (a_name, a_uid) = split(a);
    let (b_name, b_uid) = split(b);
    let first = match (a_uid, b_uid) {
        (Some(a), Some(b)) => octets(a, b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    };
    first.then_with(|| octets(a_name, b_name))
}

/// Whether `value` has the form `'bits'B`.
pub fn is_bit_string(value: &[u8]) -> bool {
    let bits = value.strip_prefix(b"'").and_then(|rest| rest.strip_suffix(b"'B"));
    bits.is_some_and(|bits| bits.iter().all(|bit| matches!(bit, b'0' | b'1')))
}

/// Splits a value at its last `#` into the name and the bit string, if the text after the `#` is a bit string.
pub fn split(value: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memrchr(b'#', value) {
        Some(at) if is_bit_string(&value[at + 1..]) => (&value[..at], Some(&value[at + 1..])),
        _ => (value, None),
    }
}
