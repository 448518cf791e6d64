//! Converts errors of the core to Python exceptions, and refuses invalid arguments before a call.
//!
//! The facts are attributes of the exception, not fields: the stable ABI before Python 3.12 allows no fields in an
//! exception class. Attributes also survive pickling, so that a child process can raise the exception.

use std::path::PathBuf;

use lmdbfile::ErrorKind;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;

create_exception!(loader._native, NativeError, PyException, "An error of the native core.");

/// Sets defaults for the attributes on the class, so that exceptions created in Python have them too.
pub fn give_attributes(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let class = module.py().get_type::<NativeError>();
    Facts::default().set(&class)
}

/// The attributes of a [`NativeError`].
#[derive(Debug, Default)]
pub struct Facts {
    code: &'static str,
    path: Option<PathBuf>,
    line: Option<u64>,
    dn: Option<String>,
    result: Option<i32>,
    errno: Option<i32>,
    message: String,
}

impl Facts {
    fn set(self, on: &Bound<'_, PyAny>) -> PyResult<()> {
        on.setattr("code", self.code)?;
        on.setattr("path", self.path.map(PathBuf::into_os_string))?;
        on.setattr("line", self.line)?;
        on.setattr("dn", self.dn)?;
        on.setattr("result", self.result)?;
        on.setattr("errno", self.errno)?;
        on.setattr("message", self.message)
    }
}

/// An error of the core. Its text becomes the text of the exception.
pub trait Raise: ToString {
    fn facts(self) -> Facts;
}

/// Converts the result of a call: an error becomes a `NativeError`.
pub fn raised<T>(result: Result<T, impl Raise>) -> PyResult<T> {
    result.map_err(|error| {
        let raised = NativeError::new_err(error.to_string());
        Python::attach(|py| error.facts().set(raised.value(py))).err().unwrap_or(raised)
    })
}

/// Returns `found`; if it is `None`, returns an error which says that `given` is not a valid `what`.
pub fn one_of<T>(found: Option<T>, given: &str, what: &str) -> PyResult<T> {
    found.ok_or_else(|| PyValueError::new_err(format!("{given} is not a {what}")))
}

impl Raise for common::Error {
    fn facts(self) -> Facts {
        let Self { code, path, line, dn, errno, message } = self;
        Facts { code: code.as_str(), path, line, dn, errno, message, result: None }
    }
}

impl Raise for wire::Error {
    fn facts(self) -> Facts {
        match self {
            Self::Local(error) => error.facts(),
            Self::Ldap(failure) => {
                let wire::Failure { phase, result, text, matched } = *failure;
                let dn = Some(matched).filter(|matched| !matched.is_empty());
                let (code, result, message) = (phase.as_str(), Some(result), text);
                Facts { code, dn, result, message, ..Facts::default() }
            }
        }
    }
}

impl Raise for lmdbfile::Error {
    fn facts(self) -> Facts {
        let code = match self.kind {
            ErrorKind::Io => "lmdb.io",
            ErrorKind::NoSpace => "lmdb.no_space",
            ErrorKind::Full => "lmdb.full",
            ErrorKind::Stream => "lmdb.stream",
            ErrorKind::Misuse => "lmdb.misuse",
            ErrorKind::Cancelled => "cancelled",
            ErrorKind::Foreign => "lmdb.foreign",
            ErrorKind::Encrypted => "lmdb.encrypted",
            ErrorKind::Checksums => "lmdb.checksums",
            _ => "lmdb.damaged",
        };
        Facts { code, errno: self.errno, message: self.to_string(), ..Facts::default() }
    }
}

impl Raise for synth::Problem {
    fn facts(self) -> Facts {
        let line = (self.spot.line > 0).then_some(self.spot.line.into());
        let (code, message) = (self.code(), self.located());
        Facts { code, path: Some(self.path), line, message, ..Facts::default() }
    }
}
