//! Values by LDAP syntaxes and matching rules: normal forms, checks, orders and index keys.
//!
//! No schema is needed; attribute names, OIDs and DNs are in the crate `schema`. The results equal slapd's byte for
//! byte, even where slapd has bugs, because slapd compares stored index keys with keys that it computes for searches.

mod csn;
pub mod filter;
pub mod keys;
mod normalise;
mod order;
mod syntax;
mod text;
mod time;
pub mod uuid;

use std::borrow::Cow;
use std::fmt;

pub use csn::is_normal_csn;
pub use normalise::{Normaliser, telephone};
pub use order::Order;
pub use syntax::Syntax;
pub use text::utf8;

/// The reason why a value is refused: a short clause without the value, such as "not valid UTF-8".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidValue(pub Cow<'static, str>);

impl InvalidValue {
    pub(crate) const fn new(clause: &'static str) -> Self {
        Self(Cow::Borrowed(clause))
    }

    /// Returns an error with `clause` unless `holds`.
    pub(crate) fn unless(holds: bool, clause: &'static str) -> Result<()> {
        if holds { Ok(()) } else { Err(Self::new(clause)) }
    }
}

impl fmt::Display for InvalidValue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for InvalidValue {}

/// The result of reading a value.
pub type Result<T, E = InvalidValue> = std::result::Result<T, E>;

/// Returns an error with `clause`.
pub fn refuse<T>(clause: impl Into<Cow<'static, str>>) -> Result<T> {
    Err(InvalidValue(clause.into()))
}
