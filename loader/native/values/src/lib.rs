//! Values as LDAP syntaxes and matching rules see them: normal forms, checks, orders, index keys.
//!
//! No schema is needed here. Names of attributes, OIDs and DNs belong to crate `schema`.
//! What slapd does is followed to the byte, slips included, because index keys made here are
//! compared with keys that slapd makes for searches.

mod csn;
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

/// Why a value was refused: a short clause without the value, e.g. "not valid UTF-8".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidValue(pub Cow<'static, str>);

impl InvalidValue {
    /// For `ok_or` and the like.
    pub(crate) const fn new(clause: &'static str) -> Self {
        Self(Cow::Borrowed(clause))
    }

    /// Accepts when `holds`.
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

/// Of reading a value.
pub type Result<T, E = InvalidValue> = std::result::Result<T, E>;

/// The refusal as the result of whatever was asked for.
pub fn refuse<T>(clause: impl Into<Cow<'static, str>>) -> Result<T> {
    Err(InvalidValue(clause.into()))
}
