//! Searches of a log or a file of filters, held against the indexes of a database.

use std::path::PathBuf;

use ::select::searches::{Group, Kind, Setting, read};
use pyo3::prelude::*;
use values::keys::Substrings;

use crate::building::Schema;
use crate::counters::Counters;
use crate::gate::enter;

/// Searches that differ in their values only.
#[pyclass(frozen, get_all, module = "loader._native")]
#[derive(Debug, Clone)]
pub struct SearchGroup {
    filter: String,
    searches: u64,
    indexed: bool,
    used: Vec<(String, &'static str)>,
    lacking: Vec<(String, &'static str)>,
    answered: u64,
    entries: u64,
    seconds: f64,
}

#[pyclass(frozen, get_all, module = "loader._native")]
#[derive(Debug)]
pub struct SearchesFound {
    groups: Vec<SearchGroup>,
    lines: u64,
    of_base: u64,
    elsewhere: u64,
    unreadable: u64,
    others: u64,
}

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
    let found = enter(py, &counters.0, work)?;
    Ok(SearchesFound {
        groups: found.groups.into_iter().map(group).collect(),
        lines: found.lines,
        of_base: found.of_base,
        elsewhere: found.elsewhere,
        unreadable: found.unreadable,
        others: found.others,
    })
}

fn group(one: Group) -> SearchGroup {
    SearchGroup {
        filter: one.filter,
        searches: one.searches,
        indexed: one.indexed,
        used: one.used,
        lacking: one.lacking,
        answered: one.answered,
        entries: one.entries,
        seconds: one.seconds,
    }
}
