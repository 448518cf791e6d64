//! What a partial replica holds of its provider's entries.

use std::path::PathBuf;

use ::select::{AttributeLists, Scope, Settings};
use common::{Code, WithCode};
use pyo3::prelude::*;

use crate::building::Schema;
use crate::counters::Counters;
use crate::error::{one_of, raised};
use crate::gate::enter;
use crate::results::record;

/// A consumer's syncrepl, understood by its schema.
#[pyclass(frozen, module = "loader._native")]
#[derive(Debug)]
pub struct Selection {
    schema: Py<Schema>,
    read: ::select::Selection,
}

#[pymethods]
impl Selection {
    #[new]
    #[pyo3(signature = (
        schema, *, suffix, root_dn, last_mod, base, scope, filter, attrs, exattrs, massage
    ))]
    fn new(
        py: Python<'_>,
        schema: Py<Schema>,
        suffix: String,
        root_dn: Option<String>,
        last_mod: bool,
        base: String,
        scope: &str,
        filter: Option<String>,
        attrs: Vec<String>,
        exattrs: Vec<String>,
        massage: Option<String>,
    ) -> PyResult<Self> {
        let scope = one_of(Scope::from_name(scope), scope, "scope")?;
        let listed = AttributeLists { attrs, exattrs };
        let settings = Settings { suffix, root_dn, last_mod, base, scope, filter, listed, massage };
        let read = ::select::Selection::read(&settings, schema.get().inner());
        Ok(Self { read: raised(py, read.with_code(Code::Unproven))?, schema })
    }

    fn request(&self) -> Vec<String> {
        self.read.request()
    }

    fn left_out(&self) -> Vec<String> {
        self.read.left_out(self.schema.get().inner())
    }
}

record!(Selected from ::select::Selected { read: u64, kept: u64, glue: u64 });

#[pyfunction]
pub fn select(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    entries: PathBuf,
    glue: PathBuf,
    selection: &Selection,
    context_csns: Vec<String>,
    counters: &Counters,
) -> PyResult<Selected> {
    let (schema, read) = (selection.schema.get().inner(), &selection.read);
    let work =
        || ::select::select(&paths, &entries, &glue, read, schema, &context_csns, &counters.0);
    Ok(enter(py, &counters.0, work)?.into())
}
