//! What a caller adds to the failure of what it called.

use std::fmt::Display;
use std::path::Path;

use crate::{Code, Error, Result};

/// Results of everything that becomes an [`Error`] by itself.
pub trait InFile<T> {
    /// Names the file, unless one is named already.
    fn in_file(self, path: Option<&Path>) -> Result<T>;
}

impl<T, E: Into<Error>> InFile<T> for std::result::Result<T, E> {
    fn in_file(self, path: Option<&Path>) -> Result<T> {
        self.map_err(|error| error.into().in_file(path))
    }
}

/// Results whose failure is a message, and means something else from caller to caller.
pub trait WithCode<T> {
    /// Says what the failure is.
    fn with_code(self, code: Code) -> Result<T>;
}

impl<T, E: Display> WithCode<T> for std::result::Result<T, E> {
    fn with_code(self, code: Code) -> Result<T> {
        self.map_err(|error| Error::new(code, error.to_string()))
    }
}
