//! An LDAP schema as slapd has it: attribute types, object classes, DNs, and checks of entries.
//!
//! [`Schema::read`] parses the definitions in cn=config. Afterwards the schema is immutable and shared by all threads.
//! It resolves attribute descriptions ([`Schema::describe`]), normalizes and checks values ([`Schema::normalise`],
//! [`Schema::check_value`]), parses DNs ([`Schema::dn`]), and derives the requirements of object classes
//! ([`Schema::profile`]). Results equal slapd's, even where slapd deviates from the standards.

mod attribute;
mod class;
mod describe;
mod dn;
mod entry;
mod names;
mod normalise;
mod read;
mod rules;
mod schema;
mod syntax;
mod x509;

pub use attribute::{AttributeId, AttributeType, Normalise, XOrdered};
pub use class::{ClassId, ClassKind, ContentRule, ObjectClass};
pub use describe::Description;
pub use dn::{Ava, Dn, Rdn, dn_key, split_leaf};
pub use entry::ObjectClassSet;
pub use normalise::ValueForm;
pub use read::{Definition, Kind, Settings};
pub use rules::{Rule, RuleKind};
pub use schema::Schema;
use values::refuse;
pub use values::{InvalidValue, Result};
