//! Calls that learn a template from LDIF, and that generate LDIF from a template.

use std::path::PathBuf;

use ::learn::Source;
use loadplan::{Action, FilterForm, Lines, Plan, PlanOptions};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyMapping;
use synth::{Maker, Options, Problem, Task, Tree, compile, model, toml};

use crate::error::raised;
use crate::gate::{Counters, Descriptor, detached};
use crate::results::{Shard, record, view};

/// A template, and the tree that it describes for a seed, a suffix and a number of entries.
struct Compiled {
    template: model::Template,
    tree: Tree,
}

view!(Template of compiled: Compiled {
    entries: u64 = compiled.tree.entries(),
    suffix: String = compiled.tree.suffix.clone(),
    description: String = compiled.tree.description.clone(),
    fingerprint: String = compiled.tree.fingerprint.clone(),
    kinds: Vec<(String, u64, u64)> =
        compiled.tree.kinds().iter().map(|kind| (kind.name.clone(), kind.start, kind.count)).collect(),
});

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
struct PlanSettings<'py> {
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
            Ok::<_, Problem>(Self::from(Compiled { template, tree }))
        })
    }

    fn entry(&self, number: u64) -> PyResult<Vec<u8>> {
        if number >= self.entries {
            return Err(PyIndexError::new_err(format!("there is no entry {number}")));
        }
        let mut out = Vec::new();
        Maker::new(&self.compiled.tree).entry(number, &mut out);
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
        let task = Task { items: &self.compiled.tree, first, end, jobs };
        counters.run(|counters| synth::to_descriptor(&task, fd.0, compress, counters))
    }

    fn shard(&self, path: PathBuf, first: u64, end: u64, jobs: usize, counters: &Counters) -> PyResult<Shard> {
        let task = Task { items: &self.compiled.tree, first, end, jobs };
        counters.run(|counters| synth::to_file(&task, &path, counters))
    }

    fn plan(&self, options: PlanSettings<'_>, fd: Descriptor, jobs: usize, counters: &Counters) -> PyResult<()> {
        let PlanSettings { operations, mix, miss, skew, seed, looks, ldif } = options;
        let mix: Vec<(String, u64)> = mix.items()?.extract()?;
        let looks = looks.into_iter().map(|(name, beginning, weight)| {
            (name, if beginning { FilterForm::Beginning } else { FilterForm::Equality }, weight)
        });
        let looks = looks.collect();
        let mix: Result<_, _> = mix.into_iter().map(|(name, share)| Ok((Action::named(&name)?, share))).collect();
        let Compiled { template, tree } = &self.compiled;
        let plan =
            mix.and_then(|mix| Plan::new(template, tree, &PlanOptions { operations, mix, miss, skew, seed, looks }));
        let plan = raised(plan.map_err(|message| Problem::asked(&template.path, message)))?;
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
