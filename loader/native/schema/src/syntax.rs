//! LDAP syntaxes: who checks a value, who makes it pretty inside a DN (`servers/slapd/schema_init.c`).

/// How a value of a syntax is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// By itself, without schema.
    Plain(values::Syntax),
    Dn,
    Rdn,
    NameUid,
    /// A dotted OID.
    Oid,
    /// A dotted OID or a name (objectClass and the attributes of the subschema entry).
    OidOrName,
    Certificate,
    CertificateList,
    AttributeCertificate,
    /// Of an LDAP control, as slapo-accesslog(5) writes it.
    Control,
    /// Configured without `X-SUBST`: slapadd stores what it is given.
    Unchecked,
    /// slapd's own, but how it stores a value is not followed here: assertions of certificates,
    /// authorization rules (`authzTo`) and access control items (`OpenLDAPaci`). An attribute of it may
    /// be defined; an entry that has one is refused.
    Unfollowed,
    /// Of a module that is not part of OpenLDAP.
    Unproven,
}

/// What slapd makes of a value inside a DN before it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pretty {
    Same,
    Dn,
    Rdn,
    NameUid,
    Uuid,
    Csn,
    Sid,
    /// The canonical name of the object class.
    ClassName,
    /// The canonical name of the attribute type.
    AttributeName,
}

/// A syntax as an attribute type uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Syntax {
    pub check: Check,
    pub pretty: Pretty,
    /// Values travel as `;binary`, and slapd refuses an attribute that does not say so.
    pub binary: bool,
}

/// Syntaxes that are looked at here; all others are left to crate `values`.
const OWN: [(&str, Check, Pretty); 13] = [
    ("1.3.6.1.4.1.1466.115.121.1.8", Check::Certificate, Pretty::Same),
    ("1.3.6.1.4.1.1466.115.121.1.9", Check::CertificateList, Pretty::Same),
    ("1.3.6.1.4.1.1466.115.121.1.12", Check::Dn, Pretty::Dn),
    ("1.3.6.1.4.1.1466.115.121.1.34", Check::NameUid, Pretty::NameUid),
    ("1.3.6.1.4.1.1466.115.121.1.38", Check::Oid, Pretty::Same),
    ("1.2.36.79672281.1.5.0", Check::Rdn, Pretty::Rdn),
    ("1.3.6.1.4.1.4203.666.11.10.2.1", Check::AttributeCertificate, Pretty::Same),
    ("1.3.6.1.4.1.4203.666.2.1", Check::Unfollowed, Pretty::Same),
    ("1.3.6.1.4.1.4203.666.2.7", Check::Unfollowed, Pretty::Same),
    ("1.3.6.1.1.15.1", Check::Unfollowed, Pretty::Same),
    ("1.3.6.1.1.15.5", Check::Unfollowed, Pretty::Same),
    ("1.3.6.1.4.1.4203.666.11.10.2.2", Check::Unfollowed, Pretty::Same),
    ("1.3.6.1.4.1.4203.666.11.5.3.1", Check::Control, Pretty::Same),
];

/// Syntaxes of crate `values` whose values slapd rewrites inside a DN.
const PRETTY: [(&str, Pretty); 3] = [
    ("1.3.6.1.1.16.1", Pretty::Uuid),
    ("1.3.6.1.4.1.4203.666.11.2.1", Pretty::Csn),
    ("1.3.6.1.4.1.4203.666.11.2.4", Pretty::Sid),
];

/// Syntaxes with slapd's flag for binary transfer.
const BINARY: [&str; 7] = [
    "1.3.6.1.4.1.1466.115.121.1.1",
    "1.3.6.1.4.1.1466.115.121.1.8",
    "1.3.6.1.4.1.1466.115.121.1.9",
    "1.3.6.1.4.1.1466.115.121.1.10",
    "1.3.6.1.4.1.1466.115.121.1.49",
    "1.3.6.1.4.1.4203.666.11.10.2.1",
    "1.2.840.113549.1.8.1.1",
];

impl Syntax {
    /// The syntax with this OID (dotted, without `{len}`), which slapd or one of its modules registers.
    pub fn from_oid(oid: &str) -> Self {
        let binary = BINARY.contains(&oid);
        if let Some(&(_, check, pretty)) = OWN.iter().find(|own| own.0 == oid) {
            return Self { check, pretty, binary };
        }
        let check = values::Syntax::from_oid(oid).map_or(Check::Unproven, Check::Plain);
        let pretty = PRETTY.iter().find(|known| known.0 == oid);
        Self { check, pretty: pretty.map_or(Pretty::Same, |known| known.1), binary }
    }

    /// A syntax of the configuration's own that says of no other one that it is like that.
    pub const UNCHECKED: Self =
        Self { check: Check::Unchecked, pretty: Pretty::Same, binary: false };
}
