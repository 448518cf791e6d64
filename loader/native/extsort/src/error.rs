//! Why sorting ended early.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use common::Code;

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

/// One without an errno tells that what was written does not read back.
impl From<Error> for common::Error {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        let (dir, io) = match error {
            Error::Disk { dir, io } => (dir, io),
            Error::Cancelled => return Self::cancelled(),
            Error::Misuse(what) => return Self::new(Code::Damaged, what),
        };
        let found = Self::from(io);
        let code = if found.errno.is_some() { found.code } else { Code::Damaged };
        Self { code, message, ..found }.in_file(Some(&dir))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_is_told_with_its_errno_and_only_changed_contents_are_damage() {
        let told = |io| common::Error::from(Error::disk(Path::new("/var/tmp"), io));
        for (errno, code) in [(5, Code::Io), (13, Code::Io), (28, Code::NoSpace)] {
            let error = told(io::Error::from_raw_os_error(errno));
            assert_eq!((error.code, error.errno), (code, Some(errno)));
            assert_eq!(error.path.as_deref(), Some(Path::new("/var/tmp")));
        }
        assert_eq!(told(io::ErrorKind::UnexpectedEof.into()).code, Code::Damaged);
    }
}
