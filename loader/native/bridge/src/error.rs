//! The core's error as a Python exception.
//!
//! Its facts are attributes, not arguments: before Python 3.12 the stable interface lets nobody add
//! fields to an exception class. Attributes also survive pickling, so workers can raise it.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(loader._native, NativeError, PyException, "What the native core could not do.");

/// One made from Python by hand has the attributes too.
pub fn give_attributes(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let class = module.py().get_type::<NativeError>();
    ["code", "message"].iter().try_for_each(|fact| class.setattr(fact, ""))?;
    ["path", "line", "dn", "result"]
        .iter()
        .try_for_each(|fact| class.setattr(fact, module.py().None()))
}

/// An error of the core.
pub trait Raise {
    fn raise(self, py: Python<'_>) -> PyErr;
}

impl Raise for ldif::Error {
    fn raise(self, py: Python<'_>) -> PyErr {
        let raised = NativeError::new_err(self.to_string());
        match describe(raised.value(py), self) {
            Ok(()) => raised,
            Err(failure) => failure,
        }
    }
}

impl Raise for wire::Error {
    fn raise(self, py: Python<'_>) -> PyErr {
        let failure = match self {
            Self::Local(error) => return error.raise(py),
            Self::Ldap(failure) => failure,
        };
        let raised = NativeError::new_err(failure.to_string());
        match describe_failure(raised.value(py), *failure) {
            Ok(()) => raised,
            Err(failure) => failure,
        }
    }
}

fn describe_failure(raised: &Bound<'_, PyAny>, failure: wire::Failure) -> PyResult<()> {
    raised.setattr("code", failure.phase.code())?;
    raised.setattr("result", failure.result)?;
    raised.setattr("dn", Some(failure.matched).filter(|matched| !matched.is_empty()))?;
    raised.setattr("message", failure.text)
}

pub fn raise(py: Python<'_>, error: impl Raise) -> PyErr {
    error.raise(py)
}

fn describe(raised: &Bound<'_, PyAny>, error: ldif::Error) -> PyResult<()> {
    raised.setattr("code", error.code.as_str())?;
    raised.setattr("path", error.path.map(std::path::PathBuf::into_os_string))?;
    raised.setattr("line", error.line)?;
    raised.setattr("dn", error.dn)?;
    raised.setattr("message", error.message)
}
