//! LDAP syntaxes: how values are validated, and how they are rewritten inside a DN (`servers/slapd/schema_init.c`).

/// How values of a syntax are validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// The crate `values` checks them, without a schema.
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
    PrivateKey,
    /// An LDAP control as written by slapo-accesslog(5).
    Control,
    /// A configured syntax without `X-SUBST`: slapadd stores its values unchanged.
    Unchecked,
    /// Syntaxes of slapd whose stored form is not implemented here: certificate assertions, authorization rules
    /// (`authzTo`) and access control items (`OpenLDAPaci`). A schema may have attribute types of these syntaxes, but
    /// an entry with such an attribute is refused.
    Unfollowed,
    /// A syntax from a module that is not part of OpenLDAP.
    Unproven,
}

/// How slapd rewrites a value inside a DN before storing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pretty {
    Same,
    Dn,
    Rdn,
    NameUid,
    Uuid,
    Csn,
    Sid,
    /// The value becomes the canonical name of the object class.
    ClassName,
    /// The value becomes the canonical name of the attribute type.
    AttributeName,
}

/// The syntax of an attribute type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Syntax {
    pub check: Check,
    pub pretty: Pretty,
    /// Whether values are transferred in binary, so that slapd requires `;binary` in descriptions.
    pub binary: bool,
}

/// Syntaxes that this crate implements, or whose values slapd rewrites inside a DN. The crate `values` has the others.
const OWN: [(&str, Check, Pretty); 17] = [
    ("1.3.6.1.4.1.1466.115.121.1.8", Check::Certificate, Pretty::Same),
    ("1.3.6.1.4.1.1466.115.121.1.9", Check::CertificateList, Pretty::Same),
    ("1.3.6.1.4.1.1466.115.121.1.12", Check::Dn, Pretty::Dn),
    ("1.3.6.1.4.1.1466.115.121.1.34", Check::NameUid, Pretty::NameUid),
    ("1.3.6.1.4.1.1466.115.121.1.38", Check::Oid, Pretty::Same),
    ("1.2.36.79672281.1.5.0", Check::Rdn, Pretty::Rdn),
    ("1.3.6.1.4.1.4203.666.11.10.2.1", Check::AttributeCertificate, Pretty::Same),
    ("1.2.840.113549.1.8.1.1", Check::PrivateKey, Pretty::Same),
    ("1.3.6.1.4.1.4203.666.2.1", Check::Unfollowed, Pretty::Same),
    ("1.3.6.1.4.1.4203.666.2.7", Check::Unfollowed, Pretty::Same),
    ("1.3.6.1.1.15.1", Check::Unfollowed, Pretty::Same),
    ("1.3.6.1.1.15.5", Check::Unfollowed, Pretty::Same),
    ("1.3.6.1.4.1.4203.666.11.10.2.2", Check::Unfollowed, Pretty::Same),
    ("1.3.6.1.4.1.4203.666.11.5.3.1", Check::Control, Pretty::Same),
    ("1.3.6.1.1.16.1", Check::Plain(values::Syntax::Uuid), Pretty::Uuid),
    ("1.3.6.1.4.1.4203.666.11.2.1", Check::Plain(values::Syntax::Csn), Pretty::Csn),
    ("1.3.6.1.4.1.4203.666.11.2.4", Check::Plain(values::Syntax::CsnSid), Pretty::Sid),
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
    /// Returns the syntax with this dotted OID (without `{len}`). If neither slapd nor its modules register the OID,
    /// returns a syntax with [`Check::Unproven`].
    pub fn from_oid(oid: &str) -> Self {
        let plain = || (values::Syntax::from_oid(oid).map_or(Check::Unproven, Check::Plain), Pretty::Same);
        let own = OWN.iter().find(|own| own.0 == oid).map(|own| (own.1, own.2));
        let (check, pretty) = own.unwrap_or_else(plain);
        Self { check, pretty, binary: BINARY.contains(&oid) }
    }

    /// A configured syntax without `X-SUBST`, whose values are not checked.
    pub const UNCHECKED: Self = Self { check: Check::Unchecked, pretty: Pretty::Same, binary: false };
}
