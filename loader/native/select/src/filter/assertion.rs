//! Evaluates a filter item for an entry (`test_ava_filter`, `test_substrings_filter`).

use std::cmp::Ordering;

use schema::{AttributeId, AttributeType, ClassId, Normalise, RuleKind, Schema};
use values::{Normaliser, Order, Syntax};

use super::FilterResult;

/// An attribute of an entry: its type and its normalized values.
pub type Attribute = (AttributeId, Vec<Vec<u8>>);

/// For each description in the filter: the entry's matching attributes, including subtypes and attributes with options.
pub struct Values<'a>(pub &'a [Vec<Attribute>]);

pub enum Test {
    Present,
    Equal(Vec<u8>),
    Class(ClassId),
    Ordered { at_least: bool, than: Vec<u8> },
    Pieces(SubstringAssertion),
}

#[derive(Debug, Default)]
pub struct SubstringAssertion {
    pub start: Vec<u8>,
    pub middle: Vec<Vec<u8>>,
    pub end: Vec<u8>,
}

/// The way in which values of an attribute type are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// Normal forms are compared byte by byte; assertion values have this syntax.
    Bytes(Syntax),
    Dn,
    Class,
    Oid,
}

/// Returns how values of the type are compared, or `None` if its matching rule is missing or not implemented here.
pub fn compared(kind: &AttributeType) -> Option<Comparison> {
    let rule = kind.equality.as_ref()?;
    if rule.kind == RuleKind::ObjectClass {
        return Some(Comparison::Class);
    }
    Some(Comparison::Bytes(match (&*rule.name, kind.normaliser) {
        (_, Normalise::Dn) => return Some(Comparison::Dn),
        ("objectIdentifierMatch", Normalise::None) => return Some(Comparison::Oid),
        ("integerMatch", Normalise::None) => Syntax::Integer,
        ("booleanMatch", Normalise::None) => Syntax::Boolean,
        ("bitStringMatch", Normalise::None) => Syntax::BitString,
        ("octetStringMatch", Normalise::None) => Syntax::OctetString,
        (_, Normalise::Value(normaliser)) => syntax(normaliser)?,
        _ => return None,
    }))
}

/// Returns the assertion syntax of a rule with this normalizer.
fn syntax(normaliser: Normaliser) -> Option<Syntax> {
    Some(match normaliser {
        Normaliser::CaseIgnore | Normaliser::CaseExact => Syntax::DirectoryString,
        Normaliser::CaseIgnoreIa5 | Normaliser::CaseExactIa5 => Syntax::Ia5String,
        Normaliser::Telephone => Syntax::TelephoneNumber,
        Normaliser::NumericString => Syntax::NumericString,
        Normaliser::GeneralizedTime => Syntax::GeneralizedTime,
        Normaliser::Uuid => Syntax::Uuid,
        Normaliser::Csn => Syntax::Csn,
        Normaliser::CsnSid => Syntax::CsnSid,
        Normaliser::CaseIgnoreList | Normaliser::CaseExactList | Normaliser::LogTime => return None,
    })
}

/// Returns how an ordering rule compares values, and the normalized assertion value. Returns `None` if the value is
/// invalid or the rule is not implemented here.
pub fn in_ordering_form(rule: &str, value: &[u8]) -> Option<(Comparison, Vec<u8>)> {
    let as_is = |syntax| Some((Comparison::Bytes(syntax), value.to_vec()));
    let normaliser = match rule {
        "integerOrderingMatch" => return as_is(Syntax::Integer),
        "octetStringOrderingMatch" => return as_is(Syntax::OctetString),
        "caseIgnoreOrderingMatch" => Normaliser::CaseIgnore,
        "caseExactOrderingMatch" => Normaliser::CaseExact,
        "numericStringOrderingMatch" => Normaliser::NumericString,
        "generalizedTimeOrderingMatch" => Normaliser::GeneralizedTime,
        "UUIDOrderingMatch" => Normaliser::Uuid,
        "CSNOrderingMatch" => Normaliser::Csn,
        _ => return None,
    };
    let mut normal = Vec::new();
    normaliser.apply(value, &mut normal).ok()?;
    Some((Comparison::Bytes(syntax(normaliser)?), normal))
}

impl Comparison {
    /// Whether the value is valid in the assertion syntax.
    pub fn accepts(self, schema: &Schema, value: &[u8]) -> bool {
        match self {
            Self::Bytes(syntax) => syntax.check(value).is_ok(),
            Self::Dn => schema.dn(value).is_ok(),
            Self::Class | Self::Oid => is_name_or_oid(value),
        }
    }
}

/// Whether the value is a `numericoid` or a `descr` (RFC 4512, 1.4).
fn is_name_or_oid(value: &[u8]) -> bool {
    let tail = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    match value {
        [first, rest @ ..] if first.is_ascii_alphabetic() => rest.iter().all(tail),
        [first, ..] if first.is_ascii_digit() => value.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.'),
        _ => false,
    }
}

impl Test {
    pub fn holds(&self, schema: &Schema, entry: &Values<'_>, number: usize) -> FilterResult {
        let attributes = &entry.0[number];
        if matches!(self, Self::Present) {
            return Some(!attributes.is_empty());
        }
        let mut result = Some(false);
        for (id, values) in attributes {
            match self.of(schema, schema.get(*id), values) {
                Some(true) => return Some(true),
                None => result = None,
                Some(false) => {}
            }
        }
        result
    }

    /// Evaluates the test for one attribute. A subtype is compared by its own rules.
    fn of(&self, schema: &Schema, kind: &AttributeType, values: &[Vec<u8>]) -> FilterResult {
        let any = |holds: &dyn Fn(&[u8]) -> bool| Some(values.iter().any(|value| holds(value)));
        match self {
            Self::Present => Some(true),
            Self::Equal(_) if kind.equality.is_none() => None,
            Self::Equal(wanted) => any(&|value| equal(kind, value, wanted)),
            Self::Class(wanted) => of_class(schema, values, *wanted),
            Self::Ordered { at_least, than } => match kind.ordering.as_ref() {
                None => None,
                Some(rule) => any(&|value| {
                    let order = order(&rule.name, value, than);
                    if *at_least { order.is_ge() } else { order.is_le() }
                }),
            },
            Self::Pieces(_) if kind.substrings.is_none() => None,
            Self::Pieces(pieces) => any(&|value| pieces.match_in(value)),
        }
    }
}

fn equal(kind: &AttributeType, value: &[u8], wanted: &[u8]) -> bool {
    match kind.order {
        Order::Boolean => value.len() == wanted.len(),
        _ => value == wanted,
    }
}

/// Whether a value is the class `wanted` or one of its subclasses. Undefined if an earlier value is a class that is not
/// in the schema (`objectSubClassMatch`).
fn of_class(schema: &Schema, values: &[Vec<u8>], wanted: ClassId) -> FilterResult {
    for value in values {
        match schema.class(value) {
            None => return None,
            Some(class) if schema.object_class(class).is_a(wanted) => return Some(true),
            Some(_) => {}
        }
    }
    Some(false)
}

fn order(rule: &str, value: &[u8], than: &[u8]) -> Ordering {
    match rule {
        "integerOrderingMatch" => Order::Integer.compare(value, than),
        "generalizedTimeOrderingMatch" => {
            // The `Z` that ends the shorter value is ignored.
            let common = value.len().min(than.len()).saturating_sub(1);
            value[..common].cmp(&than[..common]).then_with(|| value.len().cmp(&than.len()))
        }
        _ => value.cmp(than),
    }
}

impl SubstringAssertion {
    /// Whether the pieces occur in this order and without overlaps (`octetStringSubstringsMatch`).
    fn match_in(&self, value: &[u8]) -> bool {
        let Some(rest) = value.strip_prefix(self.start.as_slice()) else { return false };
        let Some(mut rest) = rest.strip_suffix(self.end.as_slice()) else { return false };
        for piece in self.middle.iter().filter(|piece| !piece.is_empty()) {
            let Some(at) = rest.windows(piece.len()).position(|window| window == piece) else { return false };
            rest = &rest[at + piece.len()..];
        }
        true
    }
}
