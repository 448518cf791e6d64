//! Converts errors of the core to Python exceptions.
//!
//! The facts are attributes of the exception, because the stable ABI before Python 3.12 allows no fields in an
//! exception class. Attributes also survive pickling, so the exception can pass from a child process to its parent.

use std::ffi::OsString;
use std::path::PathBuf;

use lmdbfile::ErrorKind;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;

create_exception!(loader._native, NativeError, PyException, "An error of the native core.");

/// Sets default attributes on the class, for exceptions that Python code creates.
pub fn give_attributes(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let class = module.py().get_type::<NativeError>();
    Facts::default().set(&class)
}

/// The attributes of a [`NativeError`].
#[derive(Debug, Default, IntoPyObject)]
pub struct Facts {
    code: &'static str,
    path: Option<OsString>,
    line: Option<u64>,
    dn: Option<String>,
    result: Option<i32>,
    errno: Option<i32>,
    message: String,
}

impl Facts {
    fn set(self, on: &Bound<'_, PyAny>) -> PyResult<()> {
        for (name, value) in self.into_pyobject(on.py())? {
            on.setattr(name.cast::<PyString>()?, value)?;
        }
        Ok(())
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

/// Returns `value`, the result of parsing `text`. If it is `None`, the `ValueError` says that `text` is not a `kind`.
pub fn one_of<T>(value: Option<T>, text: &str, kind: &str) -> PyResult<T> {
    value.ok_or_else(|| PyValueError::new_err(format!("{text} is not a {kind}")))
}

impl Raise for common::Error {
    fn facts(self) -> Facts {
        let Self { code, path, line, dn, errno, message } = self;
        Facts { code: code.as_str(), path: path.map(PathBuf::into_os_string), line, dn, errno, message, result: None }
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
        Facts { code, path: Some(self.path.into()), line, message, ..Facts::default() }
    }
}
