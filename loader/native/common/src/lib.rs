//! Shared by all crates of the core: the [`Error`], the [`Counters`] of a call, and pipes whose waits can be cancelled.

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

pub use cancellable::CancellablePipe;
pub use counters::{Counters, WholeFile};
pub use error::{Code, Error, InFile, Result, WithCode};
pub use workers::lock;

/// Kills the process as `kill -9` does, if a test has set the environment variable `DITSEED_KILL_AT` to this name. For
/// Python code, loader/run/log.py does the same.
pub fn killpoint(name: &str) {
    if std::env::var_os("DITSEED_KILL_AT").is_some_and(|point| point == name) {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

/// The scope of a search, numbered as in LDAP.
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
