//! An LDAP schema as slapd has it: attribute types, object classes, DNs, and what an entry may hold.
//!
//! [`Schema::read`] takes the definitions that stand in cn=config. From then on nothing changes: one
//! schema serves all threads. It answers for attribute descriptions ([`Schema::describe`]), values
//! ([`Schema::normalise`], [`Schema::check_value`]), DNs ([`Schema::dn`]) and for what the object
//! classes of an entry ask of it ([`Schema::profile`]). Where slapd is odd, so is this: the measure
//! is what slapadd stores and refuses.

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

pub use attribute::{AttributeId, AttributeType, Normalise, Usage, XOrdered};
pub use class::{ClassId, ClassKind, ContentRule, ObjectClass};
pub use describe::Description;
pub use dn::{Ava, Dn, Rdn, dn_key, split_leaf};
pub use entry::ObjectClassSet;
pub use normalise::ValueForm;
pub use read::{Definition, Kind, Settings};
pub use rules::{Rule, RuleKind};
pub use schema::{Problem, Schema};
use values::refuse;
pub use values::{InvalidValue, Result};
