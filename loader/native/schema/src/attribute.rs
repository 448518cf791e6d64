//! Attribute types, with what they inherit.

use values::{Normaliser, Order};

use crate::Rule;
use crate::syntax::{Check, Syntax};

/// Number of an attribute type in its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttributeId(pub(crate) u32);

impl AttributeId {
    /// From 0, without gaps: an index into tables of the caller's own.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Whom the values are for (RFC 4512 section 4.1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Usage {
    #[default]
    UserApplications,
    DirectoryOperation,
    DistributedOperation,
    DsaOperation,
}

/// `X-ORDERED`: values begin with `{n}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XOrdered {
    Values,
    Siblings,
}

/// What is stored beside a value so that it can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normalise {
    /// Nothing.
    None,
    Value(Normaliser),
    Dn,
    Rdn,
    NameUid,
    /// Serial number and issuer.
    Certificate,
    /// Issuer and time.
    CertificateList,
    /// Serial number and issuer's certificate.
    AttributeCertificate,
    /// The OID of the attribute type that the value names.
    AttributeOid,
    /// The first word within the parentheses or braces: an OID.
    FirstOid,
    /// The same: an integer.
    FirstInteger,
    /// Values of attributes that slapd cannot normalise, so that no entry can have them.
    Never,
    /// slapd's own rules that are not followed here: `authzMatch` and `OpenLDAPaciMatch`.
    Unfollowed,
    /// A rule of a module that is not part of OpenLDAP.
    Unproven,
}

/// An attribute type, complete with what it has from its super-types.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools)] // as in RFC 4512 section 4.1.2
pub struct AttributeType {
    pub id: AttributeId,
    pub oid: String,
    /// First NAME as the schema spells it; the OID if there is none.
    pub name: String,
    /// All names.
    pub names: Vec<String>,
    /// The super-types from the top down, this type last: all types whose indexes see its values.
    pub chain: Vec<AttributeId>,
    /// Dotted, without `{len}`.
    pub syntax_oid: String,
    pub equality: Option<Rule>,
    pub ordering: Option<Rule>,
    pub substrings: Option<Rule>,
    pub usage: Usage,
    pub single_value: bool,
    pub collective: bool,
    pub no_user_modification: bool,
    pub obsolete: bool,
    pub ordered: Option<XOrdered>,
    pub normaliser: Normalise,
    /// Order of values in `id2v` and under `sortvals`.
    pub order: Order,
    /// Compiled into slapd or one of its modules.
    pub builtin: bool,
    pub(crate) syntax: Syntax,
}

impl AttributeType {
    pub fn operational(&self) -> bool {
        self.usage != Usage::UserApplications
    }

    /// The equality rule or the syntax by which values are stored in a way that is not known here.
    pub fn unsupported_rule(&self) -> Option<&str> {
        let rule = self.equality.as_ref().filter(|_| self.normaliser == Normalise::Unfollowed);
        let syntax = (self.syntax.check == Check::Unfollowed).then_some(&*self.syntax_oid);
        self.of_other_module().or(rule.map(|rule| &*rule.name)).or(syntax)
    }

    /// The same, as far as it is not slapd's own: a module brings it, which may change more than values.
    pub fn of_other_module(&self) -> Option<&str> {
        let rule = self.equality.as_ref().filter(|_| self.normaliser == Normalise::Unproven);
        let syntax = (self.syntax.check == Check::Unproven).then_some(self.syntax_oid.as_str());
        rule.map(|rule| &*rule.name).or(syntax)
    }

    /// Values must be given as `;binary`.
    pub fn binary(&self) -> bool {
        self.syntax.binary
    }
}
