//! Selects the entries of a partial replica, and finds the indexes that searches use or lack.

use std::path::PathBuf;

use common::{Code, Scope, WithCode};
use pyo3::prelude::*;
use select::searches::{Found, Group, Kind, Setting, read};
use select::{Settings, select};
use values::keys::Substrings;

use crate::building::Schema;
use crate::error::{one_of, raised};
use crate::gate::Counters;
use crate::results::record;

/// A consumer's syncrepl configuration, and the schema with which it was parsed.
#[pyclass(frozen, module = "loader._native")]
pub struct Selection {
    schema: Py<Schema>,
    read: select::Selection,
}

/// The fields of `loader.syncrepl.Syncrepl`.
#[derive(FromPyObject)]
struct Syncrepl {
    searchbase: String,
    scope: String,
    filter: String,
    attrs: Vec<String>,
    exattrs: Vec<String>,
    suffixmassage: Option<String>,
}

#[pymethods]
impl Selection {
    #[new]
    fn new(
        schema: Py<Schema>,
        suffix: String,
        root_dn: Option<String>,
        last_mod: bool,
        syncrepl: Syncrepl,
        evaluate: bool,
    ) -> PyResult<Self> {
        let Syncrepl { searchbase: base, scope, filter, attrs, exattrs, suffixmassage: massage } = syncrepl;
        let scope = one_of(Scope::from_name(&scope), &scope, "scope")?;
        let filter = evaluate.then_some(filter);
        let settings = Settings { suffix, root_dn, last_mod, base, scope, filter, attrs, exattrs, massage };
        let read = select::Selection::read(&settings, &schema.get().0);
        Ok(Self { read: raised(read.with_code(Code::Unproven))?, schema })
    }

    fn select(
        &self,
        paths: Vec<PathBuf>,
        entries: PathBuf,
        glue: PathBuf,
        context_csns: Vec<String>,
        counters: &Counters,
    ) -> PyResult<Selected> {
        let schema = &self.schema.get().0;
        counters.run(|counters| select(&paths, &entries, &glue, &self.read, schema, &context_csns, counters))
    }

    fn request(&self) -> Vec<String> {
        self.read.attributes.request()
    }

    fn left_out(&self) -> Vec<String> {
        self.read.attributes.left_out(&self.schema.get().0)
    }
}

record!(Selected from select::Selected { read: u64, kept: u64, glue: u64 });

record!(SearchGroup from Group {
    filter: String,
    searches: u64,
    indexed: bool,
    used: Vec<(String, &'static str)>,
    lacking: Vec<(String, &'static str)>,
    seconds: f64,
});

record!(SearchesFound from Found {
    groups: Vec<SearchGroup> = groups.into_iter().map(SearchGroup::from).collect(),
    lines: u64,
    of_base: u64,
    elsewhere: u64,
    unreadable: u64,
    others: u64,
});

/// A database: its suffix; the attribute and kinds of each index; `substr` of `loader.backmdb.Settings`.
type IndexedDatabase = (String, Vec<(String, Vec<String>)>, (usize, usize, usize));

#[pyfunction]
pub fn searches(
    paths: Vec<PathBuf>,
    filters: bool,
    schema: &Schema,
    database: IndexedDatabase,
    counters: &Counters,
) -> PyResult<SearchesFound> {
    let kind = if filters { Kind::Filters } else { Kind::Log };
    let (suffix, indexes, (min, max, any)) = database;
    let setting = Setting { suffix, indexes, lengths: Substrings { min, max, any } };
    counters.run(|counters| read(&paths, kind, setting, &schema.0, counters))
}
