//! The error type of the native core: a stable code, a location and a message.

use std::fmt::{self, Display};
use std::io;
use std::path::{Path, PathBuf};

crate::named!(
    /// The kind of an error. Scripts and tests see [`Code::as_str`], which never changes.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Code {
        /// The operating system refused to read or write.
        Io = "ldif.io",
        /// An output has no space or quota left.
        NoSpace = "ldif.no_space",
        /// The reader of a pipe has closed it.
        Pipe = "ldif.pipe",
        /// A compressed stream is corrupted.
        Corrupt = "ldif.corrupt",
        /// The input ends too early.
        Truncated = "ldif.truncated",
        /// Not LDIF.
        Syntax = "ldif.syntax",
        /// A record larger than the limit.
        TooLarge = "ldif.too_large",
        /// A change record other than `changetype: add`.
        ChangeType = "ldif.changetype",
        /// `attribute:< url`, which would read another file.
        Url = "ldif.url",
        /// `include: url`, which would read another file, or an include that cannot be followed.
        Include = "ldif.include",
        /// UTF-16, or a byte order mark.
        Encoding = "ldif.encoding",
        /// `version:` other than 1.
        Version = "ldif.version",
        /// The input lacks the entry that contextCSN belongs to.
        RootMissing = "tree.root_missing",
        /// The output directory is not empty.
        NotEmpty = "tree.not_empty",
        /// A schema or configuration that cannot be parsed.
        Schema = "schema.definition",
        /// Data that the native engine is not proven to store as slapd does.
        Unproven = "build.unproven",
        /// An input without entries.
        Empty = "build.empty",
        /// More entries than the format can number.
        TooMany = "build.too_many",
        /// The database would outgrow its map size.
        Full = "build.map_full",
        /// More entries were rejected than allowed.
        Rejected = "build.rejected",
        /// Entries whose parents are missing were rejected.
        MissingParents = "build.missing_parents",
        /// Two databases that were built separately have an entry with the same DN.
        Duplicate = "build.duplicate",
        /// A database, stream or temporary file is damaged, by a bug or by a bad disk.
        Damaged = "build.damaged",
        /// The database has no entry with the DN of the search base.
        NoSuchBase = "mdb.no_such_base",
        /// A bug in ditseed: a thread panicked, or a function was called in the wrong state.
        Internal = "internal",
        /// The work was cancelled by [`Counters::cancel`](crate::Counters::cancel).
        Cancelled = "cancelled",
    }
);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub code: Code,
    pub path: Option<PathBuf>,
    pub line: Option<u64>,
    pub dn: Option<String>,
    /// The errno of [`Code::Io`] and [`Code::NoSpace`].
    pub errno: Option<i32>,
    pub message: String,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, path: None, line: None, dn: None, errno: None, message: message.into() }
    }

    pub fn damaged(message: impl Into<String>) -> Self {
        Self::new(Code::Damaged, message)
    }

    pub fn cancelled() -> Self {
        Self::new(Code::Cancelled, "cancelled")
    }

    #[must_use]
    pub fn at(mut self, line: u64) -> Self {
        self.line.get_or_insert(line);
        self
    }

    /// Adds the file's name, unless the error already has one.
    #[must_use]
    pub fn in_file(mut self, path: Option<&Path>) -> Self {
        if self.path.is_none() {
            self.path = path.map(Path::to_path_buf);
        }
        self
    }

    #[must_use]
    pub fn of_entry(mut self, dn: Option<&[u8]>) -> Self {
        if self.dn.is_none() {
            self.dn = dn.map(|dn| String::from_utf8_lossy(dn).into_owned());
        }
        self
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        // A reader or writer of another library may have wrapped our own error, such as a cancellation.
        let error = match error.downcast::<Self>() {
            Ok(wrapped) => return wrapped,
            Err(error) => error,
        };
        let code = match error.kind() {
            io::ErrorKind::UnexpectedEof => Code::Truncated,
            io::ErrorKind::BrokenPipe => Code::Pipe,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Code::NoSpace,
            // zstd and flate2 report damage without an errno; errors of the operating system have one.
            _ if error.raw_os_error().is_none() => Code::Corrupt,
            _ => Code::Io,
        };
        Self { errno: error.raw_os_error(), ..Self::new(code, error.to_string()) }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        Self::other(error)
    }
}

/// This error is never shown, because the crew reports the original failure instead.
impl From<workers::GivenUp> for Error {
    fn from(_: workers::GivenUp) -> Self {
        Self::new(Code::Cancelled, "given up")
    }
}

impl From<workers::Panicked> for Error {
    fn from(panicked: workers::Panicked) -> Self {
        Self::new(Code::Internal, panicked.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(out, "{}: ", path.display())?;
        }
        if let Some(line) = self.line {
            write!(out, "line {line}: ")?;
        }
        out.write_str(&self.message)?;
        match &self.dn {
            Some(dn) => write!(out, " (entry {dn})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

pub trait InFile<T> {
    /// Adds the file's name to the error, unless it already has one.
    fn in_file(self, path: Option<&Path>) -> Result<T>;
}

impl<T, E: Into<Error>> InFile<T> for std::result::Result<T, E> {
    fn in_file(self, path: Option<&Path>) -> Result<T> {
        self.map_err(|error| error.into().in_file(path))
    }
}

/// Converts errors that have only a message. Their code depends on the caller.
pub trait WithCode<T> {
    /// Converts the error to an [`Error`] with this code.
    fn with_code(self, code: Code) -> Result<T>;
}

impl<T, E: Display> WithCode<T> for std::result::Result<T, E> {
    fn with_code(self, code: Code) -> Result<T> {
        self.map_err(|error| Error::new(code, error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_are_never_damage() {
        let error = |errno| Error::from(io::Error::from_raw_os_error(errno));
        for (errno, code) in
            [(13, Code::Io), (5, Code::Io), (2, Code::Io), (28, Code::NoSpace), (122, Code::NoSpace), (32, Code::Pipe)]
        {
            assert_eq!((error(errno).code, error(errno).errno), (code, Some(errno)));
        }
        let cut = Error::from(io::Error::from(io::ErrorKind::UnexpectedEof));
        let garbled = Error::from(io::Error::other("Unknown frame descriptor"));
        assert_eq!((cut.code, garbled.code), (Code::Truncated, Code::Corrupt));
    }

    #[test]
    fn a_panic_is_a_bug_and_no_damage() {
        assert_eq!(Error::from(workers::Panicked).code, Code::Internal);
    }

    #[test]
    fn an_error_of_ours_passes_through_the_readers_of_others() {
        let ours = Error::new(Code::Syntax, "text").at(7).in_file(Some("a".as_ref()));
        assert_eq!(Error::from(io::Error::from(ours.clone())), ours);
    }

    #[test]
    fn a_caller_adds_what_it_knows() {
        let refused: io::Result<()> = Err(io::Error::from_raw_os_error(13));
        let error = refused.in_file(Some("a".as_ref())).in_file(Some("b".as_ref())).unwrap_err();
        assert_eq!(error.to_string(), "a: Permission denied (os error 13)");
        let error = Err::<(), _>("no DN").with_code(Code::Unproven).unwrap_err();
        assert_eq!(error, Error::new(Code::Unproven, "no DN"));
    }
}
