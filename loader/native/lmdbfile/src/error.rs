//! The error type of this crate.

use std::path::Path;
use std::{fmt, io};

use common::Code;

use crate::Order;

/// The kind of an error, for programs. The message is for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused to open, read or write.
    Io,
    /// The file system has no space or quota left.
    NoSpace,
    /// The file would outgrow its map size.
    Full,
    /// A key or value that does not sort after the previous key or value.
    Order,
    /// A key or a DUPSORT value above [`max_key`](crate::Layout::max_key) bytes, or a value above 4 GiB.
    TooLong,
    /// An empty key, or an empty DUPSORT value.
    Empty,
    /// A call with a wrong argument or in the wrong state, such as a second value for a key of a table without DUPSORT.
    Misuse,
    /// The file was not written by a released 64-bit LMDB.
    Foreign,
    /// An environment of LMDB 1.0 with encryption.
    Encrypted,
    /// An environment of LMDB 1.0 with page checksums.
    Checksums,
    /// A damaged LMDB file.
    Corrupt,
    /// A stream that ends early or is damaged.
    Stream,
    /// The progress callback cancelled the work.
    Cancelled,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub kind: ErrorKind,
    /// The damaged page.
    pub page: Option<u64>,
    /// The table of the page. "main" and "free" are the tables whose records are in the meta page.
    pub table: Option<String>,
    /// The operating system's error number.
    pub errno: Option<i32>,
    pub message: String,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, page: None, table: None, errno: None, message: message.into() }
    }

    pub(crate) fn corrupt(page: u64, what: impl Into<String>) -> Self {
        Self { page: Some(page), ..Self::new(ErrorKind::Corrupt, what) }
    }

    pub(crate) fn of_table(mut self, name: &str) -> Self {
        self.table.get_or_insert_with(|| name.to_owned());
        self
    }

    pub(crate) fn of_file(mut self, path: &Path) -> Self {
        self.message = format!("{}: {}", path.display(), self.message);
        self
    }
}

pub(crate) fn used_twice(page: u64) -> Error {
    Error::corrupt(page, "a page is used twice")
}

/// Fails unless `next` sorts after `last`, which is empty before the first key or value. Without an order, fails only
/// if both have the same bytes.
#[inline]
pub(crate) fn check_order(what: &str, order: Option<Order>, last: &[u8], next: &[u8]) -> Result<()> {
    let ascending = match order {
        Some(order) => order.compare(last, next).is_lt(),
        None => last != next,
    };
    if ascending || last.is_empty() { Ok(()) } else { Err(out_of_order(what, last, next)) }
}

#[cold]
fn out_of_order(what: &str, last: &[u8], next: &[u8]) -> Error {
    let message = format!("{what} {} after {}", next.escape_ascii(), last.escape_ascii());
    Error::new(ErrorKind::Order, message)
}

#[inline]
pub(crate) fn check_size(what: &str, bytes: &[u8], most: usize) -> Result<()> {
    if (1..=most).contains(&bytes.len()) { Ok(()) } else { Err(wrong_size(what, bytes, most)) }
}

#[cold]
fn wrong_size(what: &str, bytes: &[u8], most: usize) -> Error {
    let (kind, problem) = match bytes.len() {
        0 => (ErrorKind::Empty, "LMDB refuses empty ones".to_owned()),
        _ => (ErrorKind::TooLong, format!("LMDB allows at most {most}")),
    };
    let start = bytes[..bytes.len().min(40)].escape_ascii();
    Error::new(kind, format!("a {what} of {} bytes ({start}); {problem}", bytes.len()))
}

pub(crate) fn programming_error(message: &str) -> Error {
    Error::new(ErrorKind::Misuse, message)
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        let error = common::Error::from(error);
        let kind = match error.code {
            Code::NoSpace => ErrorKind::NoSpace,
            Code::Cancelled => ErrorKind::Cancelled,
            _ => ErrorKind::Io,
        };
        Self { errno: error.errno, ..Self::new(kind, error.message) }
    }
}

impl From<Error> for common::Error {
    fn from(error: Error) -> Self {
        let code = match error.kind {
            ErrorKind::Io => Code::Io,
            ErrorKind::NoSpace => Code::NoSpace,
            ErrorKind::Full => Code::Full,
            ErrorKind::TooLong => Code::TooLarge,
            ErrorKind::Cancelled => Code::Cancelled,
            ErrorKind::Order | ErrorKind::Empty | ErrorKind::Misuse => Code::Internal,
            ErrorKind::Corrupt
            | ErrorKind::Stream
            | ErrorKind::Foreign
            | ErrorKind::Encrypted
            | ErrorKind::Checksums => Code::Damaged,
        };
        Self { errno: error.errno, ..Self::new(code, error.to_string()) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)?;
        match (self.page, &self.table) {
            (Some(page), Some(table)) => write!(out, " (page {page}, table {table})"),
            (Some(page), None) => write!(out, " (page {page})"),
            (None, Some(table)) => write!(out, " (table {table})"),
            (None, None) => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_callers_are_not_reported_as_damage() {
        let code = |kind| common::Error::from(Error::new(kind, "x")).code;
        for kind in [ErrorKind::Order, ErrorKind::Empty, ErrorKind::Misuse] {
            assert_eq!(code(kind), Code::Internal);
        }
        for kind in [ErrorKind::Corrupt, ErrorKind::Stream] {
            assert_eq!(code(kind), Code::Damaged);
        }
    }
}
