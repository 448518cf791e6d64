//! Definitions as they stand in cn=config (RFC 4512 section 4.1, with the leniency of libldap's
//! `schema.c`), still without regard to one another.

mod definition;
mod macros;
mod tokens;

pub use definition::{RawAttribute, RawClass, RawRule, RawSyntax};
pub use macros::Macros;

/// One value of cn=config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    pub kind: Kind,
    /// The value; a leading `{n}` is skipped.
    pub text: String,
    /// It stands in the entry `cn=schema,cn=config` itself, so it is compiled into slapd or a module.
    pub builtin: bool,
}

/// What a definition defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `olcObjectIdentifier`
    Macro,
    /// `olcLdapSyntaxes`
    Syntax,
    /// `olcAttributeTypes`
    AttributeType,
    /// `olcObjectClasses`
    ObjectClass,
    /// `olcDitContentRules`
    ContentRule,
}

/// What else in cn=config decides what an entry may hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Values of `olcAttributeOptions`; an option that ends in `-` (or `=`) stands for all that begin so.
    pub attribute_options: Vec<String>,
    /// The database has the overlay `dds`, without which slapd refuses dynamic objects.
    pub dynamic_objects: bool,
    /// Some database has the overlay `ppolicy`. Until 2.4 that, not the module, makes slapd treat
    /// `pwdAttribute` in a way of its own.
    pub password_policy: bool,
}

impl Default for Settings {
    /// As slapd without configuration: the option `lang-`, no dynamic objects.
    fn default() -> Self {
        Self {
            attribute_options: vec!["lang-".into()],
            dynamic_objects: false,
            password_policy: false,
        }
    }
}

impl Definition {
    /// The definition without the `{n}` that orders it among its siblings, and whether it is
    /// compiled in: what is compiled in has no number.
    pub(crate) fn unnumbered(&self) -> (&str, bool) {
        let text = self.text.trim();
        let numbered = text.strip_prefix('{').and_then(|rest| rest.split_once('}'));
        match numbered {
            Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
                (rest.trim_start(), false)
            }
            _ => (text, self.builtin),
        }
    }
}
