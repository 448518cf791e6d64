//! Attribute types, with what they inherit.

use values::{Normaliser, Order};

use crate::Rule;
use crate::syntax::Syntax;

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
pub enum Ordered {
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
    Certificate,
    /// Something that slapd makes and nobody has proven here yet.
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
    pub ordered: Option<Ordered>,
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

    /// The rule that has not been proven, if this type is compared by one: such values are refused.
    pub fn unproven(&self) -> Option<&str> {
        let unproven = self.normaliser == Normalise::Unproven;
        unproven.then(|| self.equality.as_ref().map_or("", |rule| &rule.name))
    }

    /// Compared by the first word of a definition in parentheses.
    pub(crate) fn first_component(&self) -> bool {
        let rule = |rule: &Rule| matches!(&*rule.oid, "2.5.13.29" | "2.5.13.30");
        self.equality.as_ref().is_some_and(rule)
    }

    /// Values must be given as `;binary`.
    pub fn binary(&self) -> bool {
        self.syntax.binary
    }
}
