//! Learning a template from LDIF.

use std::path::PathBuf;

use ::learn::Source;
use pyo3::prelude::*;

use crate::counters::Counters;
use crate::gate::{duplicate, enter};
use crate::results::record;

record!(LearnResult from ::learn::Learned {
    template: String,
    entries: u64,
    main: u64,
    kinds: usize,
    left_out: u64,
});

#[pyfunction]
pub fn learn(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    fd: Option<i32>,
    jobs: usize,
    counters: &Counters,
) -> PyResult<LearnResult> {
    let mut sources: Vec<Source> = paths.into_iter().map(Source::Path).collect();
    if let Some(fd) = fd {
        sources.push(Source::Stream(duplicate(fd)?));
    }
    let work = || ::learn::learn(sources, jobs, &counters.0);
    Ok(enter(py, &counters.0, work)?.into())
}
