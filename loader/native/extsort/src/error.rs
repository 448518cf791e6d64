//! Why sorting ended early.

use std::path::{Path, PathBuf};
use std::{fmt, io};

#[derive(Debug)]
pub enum Error {
    /// A temporary file in `dir` could not be made, written (no space or quota left), or read back.
    Disk { dir: PathBuf, io: io::Error },
    /// The stop flag was raised.
    Cancelled,
    /// The caller broke a rule of the interface, which would have cost data.
    Misuse(&'static str),
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn disk(dir: &Path, io: io::Error) -> Self {
        Self::Disk { dir: dir.to_path_buf(), io }
    }
}

/// The visitor has left, with an error of its own.
impl From<workers::GivenUp> for Error {
    fn from(_: workers::GivenUp) -> Self {
        Self::Cancelled
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk { dir, io } => write!(out, "temporary file in {}: {io}", dir.display()),
            Self::Cancelled => out.write_str("cancelled"),
            Self::Misuse(what) => out.write_str(what),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Disk { io, .. } => Some(io),
            _ => None,
        }
    }
}
