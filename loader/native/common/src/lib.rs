//! What all crates of the core share: the [`Error`], the [`Counters`] of a call, and pipes whose waits can be cancelled.

/// Declares an enum with a name for each variant. Programs outside of the core use these names, so they never change.
#[macro_export]
macro_rules! named {
    ($(#[$of_enum:meta])* pub enum $name:ident { $($(#[$meta:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$of_enum])*
        pub enum $name {
            $($(#[$meta])* $variant),*
        }

        impl $name {
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text),*
                }
            }

            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($text => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

mod cancellable;
mod counters;
mod error;
mod killpoint;

pub use cancellable::CancellablePipe;
pub use counters::{Counters, WholeFile};
pub use error::{Code, Error, InFile, Result, WithCode};
pub use killpoint::killpoint;
pub use workers::lock;

/// The scope of a search, with LDAP's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Base = 0,
    One = 1,
    Subtree = 2,
    /// All entries below the base, without the base.
    Children = 3,
}

impl Scope {
    /// Accepts the names of ldapsearch's `-s` and of slapd.conf(5).
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
