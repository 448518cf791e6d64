use std::cmp::Ordering;

use crate::uid;

/// How slapd's equality rules order values that they hold different: in id2v records and for
/// `sortvals` (slapd-mdb(5), slapd.conf(5)). Values are normal forms where the rule has a normaliser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Shorter first, then by bytes. All rules but the ones below, and DNs.
    Octets,
    /// integerMatch: by number.
    Integer,
    /// booleanMatch: longer first, so FALSE before TRUE.
    Boolean,
    /// uniqueMemberMatch: values with a `#'bits'B` part first, by that part and then by DN.
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

/// Decimal numbers without leading zeros.
fn integers(a: &[u8], b: &[u8]) -> Ordering {
    match (a.strip_prefix(b"-"), b.strip_prefix(b"-")) {
        (None, None) => octets(a, b),
        (Some(a), Some(b)) => octets(b, a),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

fn names(a: &[u8], b: &[u8]) -> Ordering {
    let (a_name, a_uid) = uid::split(a);
    let (b_name, b_uid) = uid::split(b);
    let first = match (a_uid, b_uid) {
        (Some(a), Some(b)) => octets(a, b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    };
    first.then_with(|| octets(a_name, b_name))
}
