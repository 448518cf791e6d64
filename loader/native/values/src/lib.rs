//! Values as LDAP syntaxes and matching rules see them: normal forms, checks, orders, index keys.
//!
//! No schema is needed here. Names of attributes, OIDs and DNs belong to crate `schema`.
//! What slapd does is followed to the byte, slips included, because index keys made here are
//! compared with keys that slapd makes for searches.

mod csn;
pub mod keys;
mod normalise;
mod order;
mod refusal;
mod spaces;
mod syntax;
mod text;
mod time;
mod uid;
pub mod uuid;

pub use csn::is_normal_csn;
pub use normalise::{Normaliser, telephone};
pub use order::Order;
pub use refusal::{InvalidValue, refuse};
pub use syntax::Syntax;
pub use text::utf8;
