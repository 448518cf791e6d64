//! Calls that learn a template from LDIF, and that generate LDIF from a template.

use std::path::PathBuf;

use ::learn::Source;
use loadplan::{Action, FilterForm, Lines, Plan, PlanOptions};
use pyo3::prelude::*;
use pyo3::types::PyMapping;
use synth::{Maker, Options, Problem, Task, Tree, compile, model, toml};

use crate::error::raised;
use crate::gate::{Counters, Descriptor, detached};
use crate::results::{Shard, record};

/// A template, compiled for a seed, a suffix and a number of entries.
#[pyclass(frozen, module = "loader._native")]
pub struct Template {
    template: model::Template,
    tree: Tree,
}

/// The fields of `loader.sources.dit.TreeSpec`.
#[derive(FromPyObject)]
struct TreeSpec {
    path: PathBuf,
    lists: Vec<PathBuf>,
    seed: i64,
    suffix: Option<String>,
    entries: Option<u64>,
    converted: Option<String>,
    operational: bool,
}

/// The fields of `loader.sources.dit.PlanOptions`.
#[derive(FromPyObject)]
struct Planned<'py> {
    operations: u64,
    mix: Bound<'py, PyMapping>,
    miss: f64,
    skew: f64,
    seed: i64,
    looks: Vec<(String, bool, u64)>,
    ldif: bool,
}

#[pymethods]
impl Template {
    #[new]
    fn new(spec: TreeSpec, otherwise: Option<u64>) -> PyResult<Self> {
        let TreeSpec { path, lists, seed, suffix, entries, converted, operational } = spec;
        let options = Options { seed, suffix, entries, otherwise, operational };
        detached(|| {
            let template = toml::read(&path, converted, &lists)?;
            let tree = compile(&template, &options)?;
            Ok::<_, Problem>(Self { template, tree })
        })
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

    fn entry(&self, number: u64) -> PyResult<Vec<u8>> {
        if number >= self.tree.entries() {
            let reason = format!("there is no entry {number}");
            return Err(pyo3::exceptions::PyIndexError::new_err(reason));
        }
        let mut out = Vec::new();
        Maker::new(&self.tree).entry(number, &mut out);
        Ok(out)
    }

    fn write(
        &self,
        fd: Descriptor,
        first: u64,
        end: u64,
        jobs: usize,
        counters: &Counters,
        compress: bool,
    ) -> PyResult<()> {
        let task = Task { items: &self.tree, first, end, jobs };
        counters.run(|counters| synth::to_descriptor(&task, fd.0, compress, counters))
    }

    fn shard(&self, path: PathBuf, first: u64, end: u64, jobs: usize, counters: &Counters) -> PyResult<Shard> {
        let task = Task { items: &self.tree, first, end, jobs };
        counters.run(|counters| synth::to_file(&task, &path, counters))
    }

    fn plan(&self, options: Planned<'_>, fd: Descriptor, jobs: usize, counters: &Counters) -> PyResult<()> {
        let ldif = options.ldif;
        let mix: Vec<(String, u64)> = options.mix.items()?.extract()?;
        let mix = mix.into_iter().map(|(name, share)| Ok((Action::named(&name)?, share)));
        let looks = options.looks.into_iter().map(|(name, beginning, weight)| {
            (name, if beginning { FilterForm::Beginning } else { FilterForm::Equality }, weight)
        });
        let Planned { operations, miss, skew, seed, .. } = options;
        let planned = mix.collect::<Result<_, String>>().and_then(|mix| {
            let looks = looks.collect();
            let options = PlanOptions { operations, mix, miss, skew, seed, looks };
            Plan::new(&self.template, &self.tree, &options)
        });
        let usage = |message| Problem::asked(&self.template.path, message);
        let plan = raised(planned.map_err(usage))?;
        let lines = Lines { plan: &plan, ldif };
        let task = Task { items: &lines, first: 0, end: operations, jobs };
        counters.run(|counters| synth::to_descriptor(&task, fd.0, false, counters))
    }
}

record!(LearnResult from ::learn::Learned {
    template: String,
    entries: u64,
    main: u64,
    kinds: usize,
    left_out: u64,
});

#[pyfunction]
pub fn learn(paths: Vec<PathBuf>, fd: Option<Descriptor>, jobs: usize, counters: &Counters) -> PyResult<LearnResult> {
    let stream = fd.map(|fd| Source::Stream(fd.0));
    let sources = paths.into_iter().map(Source::Path).chain(stream).collect();
    counters.run(|counters| ::learn::learn(sources, jobs, counters))
}
