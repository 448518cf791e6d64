//! Checks values of all syntaxes: normal forms, validity, orders and index keys.

use ::values::keys::{self, Seed, Substrings, Width};
use ::values::{Normaliser, Order, Syntax};

const NORMALISERS: [Normaliser; 11] = [
    Normaliser::CaseIgnore,
    Normaliser::CaseExact,
    Normaliser::CaseIgnoreIa5,
    Normaliser::CaseExactIa5,
    Normaliser::Telephone,
    Normaliser::NumericString,
    Normaliser::CaseIgnoreList,
    Normaliser::CaseExactList,
    Normaliser::GeneralizedTime,
    Normaliser::Uuid,
    Normaliser::Csn,
];

const SYNTAXES: [Syntax; 24] = [
    Syntax::BitString,
    Syntax::Boolean,
    Syntax::BootParameter,
    Syntax::CertificatePair,
    Syntax::CountryString,
    Syntax::Csn,
    Syntax::CsnSid,
    Syntax::DeliveryMethod,
    Syntax::DirectoryString,
    Syntax::FacsimileNumber,
    Syntax::GeneralizedTime,
    Syntax::Ia5String,
    Syntax::Integer,
    Syntax::NisNetgroupTriple,
    Syntax::NumericString,
    Syntax::OctetString,
    Syntax::PostalAddress,
    Syntax::PrintableString,
    Syntax::SubtreeSpecification,
    Syntax::TelephoneNumber,
    Syntax::TelexNumber,
    Syntax::Uuid,
    Syntax::Void,
    Syntax::Unchecked,
];

const ORDERS: [Order; 4] = [Order::Octets, Order::Integer, Order::Boolean, Order::NameUid];

/// # Panics
/// If the normal form of a normal form differs, an order is inconsistent, or kinds of keys disagree.
pub fn run(data: &[u8]) {
    let Some(([lengths, more], value)) = crate::switches(data) else { return };
    for one in NORMALISERS {
        normalise(one, value);
    }
    for syntax in SYNTAXES {
        let _ = syntax.check(value);
    }
    at_a_glance(value);
    order(value, usize::from(lengths));
    index(value, lengths, more);
}

fn normalise(by: Normaliser, value: &[u8]) {
    let head = b"what was there";
    let mut once = head.to_vec();
    let result = by.apply(value, &mut once);
    assert!(once.starts_with(head));
    if result.is_err() {
        assert_eq!(once, head, "a refused value appends nothing");
        return;
    }
    let once = &once[head.len()..];
    let _ = keys::time(once);
    let _ = keys::phonetic(once, |key| assert!(!key.as_bytes().is_empty()));
    if by == Normaliser::Uuid {
        assert_eq!(once.len(), 16);
        return;
    }
    let [twice, thrice] = repeat(by, once);
    // Folding precedes decomposition, so a second pass may change characters beyond ASCII further.
    if value.is_ascii() {
        assert_eq!(once, twice, "{by:?}");
    }
    assert_eq!(twice, thrice, "{by:?}");
}

/// The fast checks must agree with the syntax and the normalizer.
fn at_a_glance(value: &[u8]) {
    let agrees = |syntax: Syntax, by: Normaliser, normal: &[u8]| {
        let mut out = Vec::new();
        syntax.check(value).is_ok() && by.apply(value, &mut out).is_ok() && out == normal
    };
    if let Some(octets) = ::values::uuid::octets(value) {
        assert!(agrees(Syntax::Uuid, Normaliser::Uuid, &octets));
    }
    if let Some((kept, length)) = ::values::telephone(value) {
        assert!(agrees(Syntax::TelephoneNumber, Normaliser::Telephone, &kept[..length]));
    }
    assert!(!::values::is_normal_csn(value) || agrees(Syntax::Csn, Normaliser::Csn, value));
}

fn repeat(by: Normaliser, value: &[u8]) -> [Vec<u8>; 2] {
    let mut out = [Vec::new(), Vec::new()];
    by.apply(value, &mut out[0]).expect("a normal form can be normalized");
    let (first, second) = out.split_at_mut(1);
    by.apply(&first[0], &mut second[0]).expect("a normal form can be normalized");
    out
}

/// Checks that the order of two values is antisymmetric, and that the order of three values is transitive.
fn order(value: &[u8], cut: usize) {
    let (a, rest) = value.split_at(cut.min(value.len()));
    let (b, c) = rest.split_at(cut.min(rest.len()));
    for order in ORDERS {
        assert!(order.compare(a, a).is_eq());
        for (left, right) in [(a, b), (b, c), (a, c)] {
            assert_eq!(order.compare(left, right), order.compare(right, left).reverse());
        }
        if order.compare(a, b).is_lt() && order.compare(b, c).is_lt() {
            assert!(order.compare(a, c).is_lt(), "{order:?}");
        }
    }
}

fn index(value: &[u8], lengths: u8, more: u8) {
    for length in 4..=8 {
        if let Ok(key) = keys::integer(value, length) {
            assert_eq!(key.len(), length);
        }
    }
    assert!(value.starts_with(keys::name_uid_part(value)));
    let _ = keys::time(value);
    let _ = keys::phonetic(value, |key| assert!((1..=4).contains(&key.len())));
    let number = |bits: u8| usize::from(bits & 15);
    let pieces = Substrings { min: number(lengths), max: number(lengths >> 4), any: number(more) };
    let seeds = |width| ["^", "*", "$"].map(|pre| Seed::new(width, "cn", pre, "1.2", "3.4"));
    let (mut short, mut long) = (0, 0);
    pieces.each(&seeds(Width::Four), value, |_| short += 1);
    pieces.each64(&seeds(Width::Eight), value, |_| long += 1);
    assert_eq!(short, long);
    assert!(short <= 3 * value.len() + 2 * 16);
}
