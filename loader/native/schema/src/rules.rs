//! Matching rules, which are compiled into slapd (`servers/slapd/schema_init.c`).

use std::borrow::Cow;

use values::Normaliser;

use crate::Normalise;

/// A matching rule as an attribute type uses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Dotted; part of what is hashed into index keys.
    pub oid: Cow<'static, str>,
    pub name: Cow<'static, str>,
    pub kind: RuleKind,
    /// slapd can compare values by this rule. Without that an attribute cannot name an entry.
    pub matches: bool,
    pub(crate) normalise: Normalise,
}

/// The method by which values become index keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RuleKind {
    /// The normalised value is hashed.
    Hashed,
    /// Names of classes and their superiors are hashed: `objectClass`, `structuralObjectClass`.
    ObjectClass,
    /// Keys keep the order of integers.
    Integer,
    /// Keys keep the order of times (`generalizedTimeMatch`, `CSNMatch`).
    Time,
    /// The `#'...'B` part is cut off, the rest is hashed.
    NameUid,
    /// Pieces of the equality-normalised value are hashed.
    Substrings,
    /// slapd makes no keys by this rule.
    Unindexed,
}

use Normalise::{Dn, FirstInteger, FirstOid, NameUid, None as Plain, Rdn, Unproven, Value};
use RuleKind::{Hashed, Integer, Substrings, Time, Unindexed};

type Row = (&'static str, &'static str, RuleKind, Normalise, bool);

/// OID, name, index method, normaliser, whether there is a comparison.
const RULES: [Row; 48] = [
    ("2.5.13.0", "objectIdentifierMatch", Hashed, Plain, true),
    ("2.5.13.1", "distinguishedNameMatch", Hashed, Dn, true),
    ("1.2.36.79672281.1.13.3", "rdnMatch", Hashed, Rdn, true),
    ("2.5.13.2", "caseIgnoreMatch", Hashed, Value(Normaliser::CaseIgnore), true),
    ("2.5.13.3", "caseIgnoreOrderingMatch", Unindexed, Value(Normaliser::CaseIgnore), true),
    ("2.5.13.4", "caseIgnoreSubstringsMatch", Substrings, Value(Normaliser::CaseIgnore), true),
    ("2.5.13.5", "caseExactMatch", Hashed, Value(Normaliser::CaseExact), true),
    ("2.5.13.6", "caseExactOrderingMatch", Unindexed, Value(Normaliser::CaseExact), true),
    ("2.5.13.7", "caseExactSubstringsMatch", Substrings, Value(Normaliser::CaseExact), true),
    ("2.5.13.8", "numericStringMatch", Hashed, Value(Normaliser::NumericString), true),
    ("2.5.13.9", "numericStringOrderingMatch", Unindexed, Value(Normaliser::NumericString), true),
    (
        "2.5.13.10",
        "numericStringSubstringsMatch",
        Substrings,
        Value(Normaliser::NumericString),
        true,
    ),
    ("2.5.13.11", "caseIgnoreListMatch", Hashed, Value(Normaliser::CaseIgnoreList), true),
    (
        "2.5.13.12",
        "caseIgnoreListSubstringsMatch",
        Substrings,
        Value(Normaliser::CaseIgnoreList),
        true,
    ),
    ("2.5.13.13", "booleanMatch", Hashed, Plain, true),
    ("2.5.13.14", "integerMatch", Integer, Plain, true),
    ("2.5.13.15", "integerOrderingMatch", Unindexed, Plain, true),
    ("2.5.13.16", "bitStringMatch", Hashed, Plain, true),
    ("2.5.13.17", "octetStringMatch", Hashed, Plain, true),
    ("2.5.13.18", "octetStringOrderingMatch", Unindexed, Plain, true),
    ("2.5.13.19", "octetStringSubstringsMatch", Substrings, Plain, true),
    ("2.5.13.20", "telephoneNumberMatch", Hashed, Value(Normaliser::Telephone), true),
    ("2.5.13.21", "telephoneNumberSubstringsMatch", Substrings, Value(Normaliser::Telephone), true),
    ("2.5.13.22", "presentationAddressMatch", Unindexed, Plain, false),
    ("2.5.13.23", "uniqueMemberMatch", RuleKind::NameUid, NameUid, true),
    ("2.5.13.24", "protocolInformationMatch", Unindexed, Plain, false),
    ("2.5.13.27", "generalizedTimeMatch", Time, Value(Normaliser::GeneralizedTime), true),
    (
        "2.5.13.28",
        "generalizedTimeOrderingMatch",
        Unindexed,
        Value(Normaliser::GeneralizedTime),
        true,
    ),
    ("2.5.13.29", "integerFirstComponentMatch", Hashed, FirstInteger, true),
    ("2.5.13.30", "objectIdentifierFirstComponentMatch", Hashed, FirstOid, true),
    ("2.5.13.34", "certificateExactMatch", Hashed, Normalise::Certificate, true),
    ("2.5.13.35", "certificateMatch", Unindexed, Plain, false),
    ("2.5.13.38", "certificateListExactMatch", Hashed, Normalise::CertificateList, true),
    ("2.5.13.39", "certificateListMatch", Unindexed, Plain, false),
    ("2.5.13.45", "attributeCertificateExactMatch", Hashed, Normalise::AttributeCertificate, true),
    ("2.5.13.46", "attributeCertificateMatch", Unindexed, Plain, false),
    (
        "1.3.6.1.4.1.1466.109.114.1",
        "caseExactIA5Match",
        Hashed,
        Value(Normaliser::CaseExactIa5),
        true,
    ),
    (
        "1.3.6.1.4.1.1466.109.114.2",
        "caseIgnoreIA5Match",
        Hashed,
        Value(Normaliser::CaseIgnoreIa5),
        true,
    ),
    (
        "1.3.6.1.4.1.1466.109.114.3",
        "caseIgnoreIA5SubstringsMatch",
        Substrings,
        Value(Normaliser::CaseIgnoreIa5),
        true,
    ),
    (
        "1.3.6.1.4.1.4203.1.2.1",
        "caseExactIA5SubstringsMatch",
        Substrings,
        Value(Normaliser::CaseExactIa5),
        true,
    ),
    ("1.3.6.1.1.16.2", "UUIDMatch", Hashed, Value(Normaliser::Uuid), true),
    ("1.3.6.1.1.16.3", "UUIDOrderingMatch", Unindexed, Value(Normaliser::Uuid), true),
    ("1.3.6.1.4.1.4203.666.11.2.2", "CSNMatch", Time, Value(Normaliser::Csn), true),
    ("1.3.6.1.4.1.4203.666.11.2.3", "CSNOrderingMatch", Unindexed, Value(Normaliser::Csn), true),
    ("1.3.6.1.4.1.4203.666.11.2.5", "CSNSIDMatch", Hashed, Value(Normaliser::CsnSid), true),
    ("1.3.6.1.4.1.4203.666.4.2", "OpenLDAPaciMatch", Unindexed, Normalise::Unfollowed, true),
    ("1.3.6.1.4.1.4203.666.4.12", "authzMatch", Unindexed, Normalise::Unfollowed, true),
    ("1.3.6.1.4.1.4203.666.4.13", "privateKeyMatch", Unindexed, Plain, true),
];

impl Rule {
    /// The rule with this name or OID. A rule that is not slapd's own comes from a module; what it
    /// does is not known here, and `Normalise::Unproven` says so.
    pub(crate) fn find(name: &str) -> Self {
        let named = |row: &&Row| row.0 == name || row.1.eq_ignore_ascii_case(name);
        match RULES.iter().find(named) {
            Some(row) => Self {
                oid: row.0.into(),
                name: row.1.into(),
                kind: row.2,
                normalise: row.3,
                matches: row.4,
            },
            None => Self {
                oid: name.to_owned().into(),
                name: name.to_owned().into(),
                kind: Unindexed,
                normalise: Unproven,
                matches: true,
            },
        }
    }

    /// Values may be indexed `approx`: the rule has an approximate one beside it.
    pub fn approximate(&self) -> bool {
        matches!(self.normalise, Value(normaliser) if matches!(normaliser,
            Normaliser::CaseIgnore | Normaliser::CaseExact
            | Normaliser::CaseIgnoreIa5 | Normaliser::CaseExactIa5))
    }
}
