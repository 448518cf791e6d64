//! Synthetic trees: templates in, LDIF out.

use std::path::PathBuf;

use loadplan::{Action, FilterForm, Lines, Plan, PlanOptions};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use synth::{Maker, Options, Problem, Task, Tree, compile, model, toml};

use crate::counters::Counters;
use crate::error::raised;
use crate::gate::{duplicate, enter};
use crate::results::Shard;

/// A template made ready for one seed, one suffix and one number of entries.
#[pyclass(frozen, module = "loader._native")]
#[derive(Debug)]
pub struct Template {
    template: model::Template,
    tree: Tree,
}

#[pymethods]
impl Template {
    #[new]
    #[pyo3(signature = (path, *, text, lists, suffix, seed, entries, otherwise, operational))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        text: Option<String>,
        lists: Vec<PathBuf>,
        suffix: Option<String>,
        seed: i64,
        entries: Option<u64>,
        otherwise: Option<u64>,
        operational: bool,
    ) -> PyResult<Self> {
        let options = Options { seed, suffix, entries, otherwise, operational };
        raised(
            py,
            py.detach(|| {
                let template = toml::read(&path, text, &lists)?;
                let tree = compile(&template, &options)?;
                Ok::<_, Problem>(Self { template, tree })
            }),
        )
    }

    #[getter]
    fn entries(&self) -> u64 {
        self.tree.entries()
    }

    #[getter]
    fn suffix(&self) -> &str {
        &self.tree.suffix
    }

    #[getter]
    fn description(&self) -> &str {
        &self.tree.description
    }

    #[getter]
    fn fingerprint(&self) -> &str {
        &self.tree.fingerprint
    }

    #[getter]
    fn kinds(&self) -> Vec<(&str, u64, u64)> {
        self.tree.kinds().iter().map(|kind| (kind.name.as_str(), kind.start, kind.count)).collect()
    }

    fn entry<'py>(&self, py: Python<'py>, number: u64) -> PyResult<Bound<'py, PyBytes>> {
        if number >= self.tree.entries() {
            let reason = format!("there is no entry {number}");
            return Err(pyo3::exceptions::PyIndexError::new_err(reason));
        }
        let mut out = Vec::new();
        Maker::new(&self.tree).entry(number, &mut out);
        Ok(PyBytes::new(py, &out))
    }

    #[pyo3(signature = (fd, first, end, jobs, counters, *, compress = false))]
    fn write(
        &self,
        py: Python<'_>,
        fd: i32,
        first: u64,
        end: u64,
        jobs: usize,
        counters: &Counters,
        compress: bool,
    ) -> PyResult<()> {
        let fd = duplicate(fd)?;
        let task = Task { items: &self.tree, first, end, jobs };
        enter(py, &counters.0, || synth::to_descriptor(&task, fd, compress, &counters.0))
    }

    fn shard(
        &self,
        py: Python<'_>,
        path: PathBuf,
        first: u64,
        end: u64,
        jobs: usize,
        counters: &Counters,
    ) -> PyResult<Shard> {
        let task = Task { items: &self.tree, first, end, jobs };
        let work = || synth::to_file(&task, &path, &counters.0);
        enter(py, &counters.0, work).map(Shard::from)
    }

    #[pyo3(signature = (fd, jobs, counters, *, operations, mix, miss, skew, seed, looks, ldif))]
    fn plan(
        &self,
        py: Python<'_>,
        fd: i32,
        jobs: usize,
        counters: &Counters,
        operations: u64,
        mix: Vec<(String, u64)>,
        miss: f64,
        skew: f64,
        seed: i64,
        looks: Vec<(String, bool, u64)>,
        ldif: bool,
    ) -> PyResult<()> {
        let fd = duplicate(fd)?;
        let mix = mix.into_iter().map(|(name, share)| Ok((Action::named(&name)?, share)));
        let looks = looks.into_iter().map(|(name, beginning, weight)| {
            (name, if beginning { FilterForm::Beginning } else { FilterForm::Equality }, weight)
        });
        let planned = mix.collect::<Result<_, String>>().and_then(|mix| {
            let wishes = PlanOptions { operations, mix, miss, skew, seed, looks: looks.collect() };
            Plan::new(&self.template, &self.tree, &wishes)
        });
        let asked = |message| Problem::asked(&self.template.path, message);
        let plan = raised(py, planned.map_err(asked))?;
        let lines = Lines { plan: &plan, ldif };
        let task = Task { items: &lines, first: 0, end: operations, jobs };
        enter(py, &counters.0, || synth::to_descriptor(&task, fd, false, &counters.0))
    }
}
