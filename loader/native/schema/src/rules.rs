//! The matching rules that are compiled into slapd (`servers/slapd/schema_init.c`).

use std::borrow::Cow;

use values::Normaliser;

use crate::Normalise;

/// A matching rule of an attribute type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The dotted OID, which is part of the hash in index keys.
    pub oid: Cow<'static, str>,
    pub name: Cow<'static, str>,
    pub kind: RuleKind,
    /// Whether slapd can compare values by this rule. Otherwise the attribute cannot name an entry.
    pub matches: bool,
    pub(crate) normalise: Normalise,
}

/// The way in which values become index keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RuleKind {
    /// The normalized value is hashed.
    Hashed,
    /// The names of classes and of all their superiors are hashed: `objectClass`, `structuralObjectClass`.
    ObjectClass,
    /// Keys have the order of the integers.
    Integer,
    /// Keys have the order of the times (`generalizedTimeMatch`, `CSNMatch`).
    Time,
    /// The part `#'...'B` is removed, and the rest is hashed.
    NameUid,
    /// Substrings of the value are hashed. The value is normalized as for equality.
    Substrings,
    /// slapd has no index keys for the rule.
    Unindexed,
}

use Normalise::{Dn, FirstInteger, FirstOid, NameUid, None as Plain, Rdn, Unproven, Value};
use Normaliser::{
    CaseExact, CaseExactIa5, CaseIgnore, CaseIgnoreIa5, CaseIgnoreList, Csn, CsnSid, GeneralizedTime, NumericString,
    Telephone, Uuid,
};
use RuleKind::{Hashed, Integer, Substrings, Time, Unindexed};

type Row = (&'static str, &'static str, RuleKind, Normalise);

/// Matching rules for which slapd has no comparison function.
const UNCOMPARED: [&str; 5] = [
    "presentationAddressMatch",
    "protocolInformationMatch",
    "certificateMatch",
    "certificateListMatch",
    "attributeCertificateMatch",
];

/// Columns: OID, name, index method, normalizer.
const RULES: [Row; 48] = [
    ("2.5.13.0", "objectIdentifierMatch", Hashed, Plain),
    ("2.5.13.1", "distinguishedNameMatch", Hashed, Dn),
    ("1.2.36.79672281.1.13.3", "rdnMatch", Hashed, Rdn),
    ("2.5.13.2", "caseIgnoreMatch", Hashed, Value(CaseIgnore)),
    ("2.5.13.3", "caseIgnoreOrderingMatch", Unindexed, Value(CaseIgnore)),
    ("2.5.13.4", "caseIgnoreSubstringsMatch", Substrings, Value(CaseIgnore)),
    ("2.5.13.5", "caseExactMatch", Hashed, Value(CaseExact)),
    ("2.5.13.6", "caseExactOrderingMatch", Unindexed, Value(CaseExact)),
    ("2.5.13.7", "caseExactSubstringsMatch", Substrings, Value(CaseExact)),
    ("2.5.13.8", "numericStringMatch", Hashed, Value(NumericString)),
    ("2.5.13.9", "numericStringOrderingMatch", Unindexed, Value(NumericString)),
    ("2.5.13.10", "numericStringSubstringsMatch", Substrings, Value(NumericString)),
    ("2.5.13.11", "caseIgnoreListMatch", Hashed, Value(CaseIgnoreList)),
    ("2.5.13.12", "caseIgnoreListSubstringsMatch", Substrings, Value(CaseIgnoreList)),
    ("2.5.13.13", "booleanMatch", Hashed, Plain),
    ("2.5.13.14", "integerMatch", Integer, Plain),
    ("2.5.13.15", "integerOrderingMatch", Unindexed, Plain),
    ("2.5.13.16", "bitStringMatch", Hashed, Plain),
    ("2.5.13.17", "octetStringMatch", Hashed, Plain),
    ("2.5.13.18", "octetStringOrderingMatch", Unindexed, Plain),
    ("2.5.13.19", "octetStringSubstringsMatch", Substrings, Plain),
    ("2.5.13.20", "telephoneNumberMatch", Hashed, Value(Telephone)),
    ("2.5.13.21", "telephoneNumberSubstringsMatch", Substrings, Value(Telephone)),
    ("2.5.13.22", "presentationAddressMatch", Unindexed, Plain),
    ("2.5.13.23", "uniqueMemberMatch", RuleKind::NameUid, NameUid),
    ("2.5.13.24", "protocolInformationMatch", Unindexed, Plain),
    ("2.5.13.27", "generalizedTimeMatch", Time, Value(GeneralizedTime)),
    ("2.5.13.28", "generalizedTimeOrderingMatch", Unindexed, Value(GeneralizedTime)),
    ("2.5.13.29", "integerFirstComponentMatch", Hashed, FirstInteger),
    ("2.5.13.30", "objectIdentifierFirstComponentMatch", Hashed, FirstOid),
    ("2.5.13.34", "certificateExactMatch", Hashed, Normalise::Certificate),
    ("2.5.13.35", "certificateMatch", Unindexed, Plain),
    ("2.5.13.38", "certificateListExactMatch", Hashed, Normalise::CertificateList),
    ("2.5.13.39", "certificateListMatch", Unindexed, Plain),
    ("2.5.13.45", "attributeCertificateExactMatch", Hashed, Normalise::AttributeCertificate),
    ("2.5.13.46", "attributeCertificateMatch", Unindexed, Plain),
    ("1.3.6.1.4.1.1466.109.114.1", "caseExactIA5Match", Hashed, Value(CaseExactIa5)),
    ("1.3.6.1.4.1.1466.109.114.2", "caseIgnoreIA5Match", Hashed, Value(CaseIgnoreIa5)),
    ("1.3.6.1.4.1.1466.109.114.3", "caseIgnoreIA5SubstringsMatch", Substrings, Value(CaseIgnoreIa5)),
    ("1.3.6.1.4.1.4203.1.2.1", "caseExactIA5SubstringsMatch", Substrings, Value(CaseExactIa5)),
    ("1.3.6.1.1.16.2", "UUIDMatch", Hashed, Value(Uuid)),
    ("1.3.6.1.1.16.3", "UUIDOrderingMatch", Unindexed, Value(Uuid)),
    ("1.3.6.1.4.1.4203.666.11.2.2", "CSNMatch", Time, Value(Csn)),
    ("1.3.6.1.4.1.4203.666.11.2.3", "CSNOrderingMatch", Unindexed, Value(Csn)),
    ("1.3.6.1.4.1.4203.666.11.2.5", "CSNSIDMatch", Hashed, Value(CsnSid)),
    ("1.3.6.1.4.1.4203.666.4.2", "OpenLDAPaciMatch", Unindexed, Normalise::Unfollowed),
    ("1.3.6.1.4.1.4203.666.4.12", "authzMatch", Unindexed, Normalise::Unfollowed),
    ("1.3.6.1.4.1.4203.666.4.13", "privateKeyMatch", Unindexed, Plain),
];

impl Rule {
    /// Returns the rule with this name or OID. A rule that slapd does not have comes from a module, and gets
    /// `Normalise::Unproven` because its effect is unknown.
    pub(crate) fn find(name: &str) -> Self {
        let named = |row: &&Row| row.0 == name || row.1.eq_ignore_ascii_case(name);
        let Some(&(oid, name, kind, normalise)) = RULES.iter().find(named) else {
            let name: Cow<'_, str> = Cow::Owned(name.to_owned());
            return Self { oid: name.clone(), name, kind: Unindexed, normalise: Unproven, matches: true };
        };
        Self { oid: oid.into(), name: name.into(), kind, normalise, matches: !UNCOMPARED.contains(&name) }
    }

    /// Whether values may have an `approx` index, because the rule has an associated approximate rule.
    pub fn approximate(&self) -> bool {
        matches!(self.normalise, Value(CaseIgnore | CaseExact | CaseIgnoreIa5 | CaseExactIa5))
    }
}
