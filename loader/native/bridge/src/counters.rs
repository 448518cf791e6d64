//! The counters of a running call, as Python sees them.

use std::ffi::OsString;
use std::sync::Arc;

use pyo3::prelude::*;

#[pyclass(frozen, module = "loader._native")]
#[derive(Debug, Default)]
pub struct Counters(pub Arc<common::Counters>);

#[pymethods]
impl Counters {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    #[getter]
    fn entries(&self) -> u64 {
        self.0.entries()
    }

    #[getter]
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    #[getter]
    fn files(&self) -> Vec<(OsString, u64, String)> {
        let told = |file: common::WholeFile| {
            (file.path.into_os_string(), file.bytes, format!("{:032x}", file.checksum))
        };
        self.0.files().into_iter().map(told).collect()
    }

    #[getter]
    fn open_ends(&self) -> Vec<OsString> {
        self.0.open_ends().into_iter().map(std::path::PathBuf::into_os_string).collect()
    }

    #[getter]
    fn stage(&self) -> (&'static str, u64, u64) {
        self.0.stage()
    }

    fn limit(&self, rate: u64) {
        self.0.limit(rate);
    }

    fn cancel(&self) {
        self.0.cancel();
    }
}
