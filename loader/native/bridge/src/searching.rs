//! Searches of a log or a file of filters, held against the indexes of a database.

use std::path::PathBuf;

use ::select::searches::{Found, Group, Kind, Setting, read};
use pyo3::prelude::*;
use values::keys::Substrings;

use crate::building::Schema;
use crate::counters::Counters;
use crate::gate::enter;
use crate::results::record;

record!(SearchGroup from Group {
    filter: String,
    searches: u64,
    indexed: bool,
    used: Vec<(String, &'static str)>,
    lacking: Vec<(String, &'static str)>,
    answered: u64,
    entries: u64,
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

#[pyfunction]
#[pyo3(signature = (paths, schema, counters, *, filters, suffix, indexes, substr))]
pub fn searches(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    schema: &Schema,
    counters: &Counters,
    filters: bool,
    suffix: String,
    indexes: Vec<(String, Vec<String>)>,
    substr: (usize, usize, usize),
) -> PyResult<SearchesFound> {
    let kind = if filters { Kind::Filters } else { Kind::Log };
    let lengths = Substrings { min: substr.0, max: substr.1, any: substr.2 };
    let setting = Setting { suffix, indexes, lengths };
    let work = || read(&paths, kind, setting, schema.inner(), &counters.0);
    Ok(enter(py, &counters.0, work)?.into())
}
