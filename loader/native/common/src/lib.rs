//! What every crate of the core shares: its [`Error`], the [`Counters`] of a call, and pipes whose waits can be
//! cancelled.

mod cancellable;
mod counters;
mod error;
mod killpoint;

pub use cancellable::CancellablePipe;
pub use counters::{Counters, WholeFile};
pub use error::{Code, Error, InFile, Result, WithCode};
pub use killpoint::killpoint;
pub use workers::lock;

/// How far below its base a search reaches; the numbers are those of LDAP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Base = 0,
    One = 1,
    Subtree = 2,
    /// Without the base.
    Children = 3,
}

impl Scope {
    /// As ldapsearch's `-s` and slapd.conf(5) have them.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "base" => Some(Self::Base),
            "one" => Some(Self::One),
            "sub" => Some(Self::Subtree),
            "children" | "subordinate" => Some(Self::Children),
            _ => None,
        }
    }
}
