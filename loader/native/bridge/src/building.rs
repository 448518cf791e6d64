//! Parses schemas, and builds and verifies databases.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use backmdb::split::{SplitCounts, SplitTarget};
use backmdb::{LiveSource, Method, Options, Orphan, Settings, Source, ValueCheck, VerifyMeans};
use common::{Code, Error, WithCode, lock};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use schema::{Definition, Kind};
use values::keys::Substrings;

use crate::calls::Stamp;
use crate::error::{one_of, raised};
use crate::gate::{Counters, Descriptor};
use crate::results::{argument, record};

#[pyclass(frozen, module = "loader._native")]
pub struct Schema(pub schema::Schema);

/// Maps the name of each attribute type to the result of `rule`, unless `rule` returns `None`.
fn rules_by_name<'a>(
    kinds: impl Iterator<Item = &'a schema::AttributeType>,
    rule: impl Fn(&schema::AttributeType) -> Option<&str>,
) -> HashMap<String, String> {
    kinds.filter_map(|kind| Some((kind.name.clone(), rule(kind)?.to_owned()))).collect()
}

type SchemaFact = (&'static str, String, Vec<String>, bool, String, String);

#[pymethods]
impl Schema {
    #[new]
    fn new(
        definitions: Vec<(String, String, bool)>,
        options: Vec<String>,
        dynamic_objects: bool,
        password_policy: bool,
    ) -> PyResult<Self> {
        let definitions: Vec<Definition> = definitions.into_iter().map(definition).collect::<PyResult<_>>()?;
        let settings = schema::Settings { attribute_options: options, dynamic_objects, password_policy };
        raised(schema::Schema::read(&definitions, settings).with_code(Code::Schema)).map(Self)
    }

    fn foreign(&self) -> HashMap<String, String> {
        rules_by_name(self.0.attributes(), schema::AttributeType::of_other_module)
    }

    fn facts(&self) -> Vec<SchemaFact> {
        let names = |names: &[String], oid: &String| [names, std::slice::from_ref(oid)].concat();
        let attributes = self.0.attributes().map(|kind| {
            let (stored, keys) = self.0.attribute_meaning(kind);
            ("attribute", kind.name.clone(), names(&kind.names, &kind.oid), kind.builtin, stored, keys)
        });
        let classes = self.0.object_classes().map(|class| {
            let (stored, keys) = self.0.class_meaning(class);
            ("class", class.name.clone(), names(&class.names, &class.oid), class.builtin, stored, keys)
        });
        attributes.chain(classes).collect()
    }

    fn unknown(&self, descriptions: Vec<String>) -> Vec<String> {
        descriptions.into_iter().filter(|text| self.0.describe(text.as_bytes()).is_err()).collect()
    }

    fn unproven(&self, descriptions: Vec<String>) -> HashMap<String, String> {
        let base = |text: &String| text.split(';').next().unwrap_or_default().to_owned();
        let named = descriptions.iter().filter_map(|text| self.0.attribute(base(text).as_bytes()));
        rules_by_name(named.map(|id| self.0.get(id)), schema::AttributeType::unsupported_rule)
    }
}

fn definition((kind, text, builtin): (String, String, bool)) -> PyResult<Definition> {
    let kind = match kind.as_str() {
        "macro" => Kind::Macro,
        "syntax" => Kind::Syntax,
        "attribute" => Kind::AttributeType,
        "class" => Kind::ObjectClass,
        "rule" => Kind::ContentRule,
        _ => return one_of(None, &kind, "kind of definition"),
    };
    Ok(Definition { kind, text, builtin })
}

#[pyclass(frozen, get_all, module = "loader._native")]
#[derive(Debug, Clone)]
pub struct Rejection {
    pub path: Option<PathBuf>,
    pub line: u64,
    pub dn: String,
    pub reason: String,
}

/// Returns at most a hundred rejections; the reject file contains all of them.
pub fn reported<P>(all: Vec<ldif::rejects::Rejection<P>>) -> Vec<Rejection> {
    let converted = |rejection: ldif::rejects::Rejection<P>| {
        let path = rejection.path.map(|path| path.as_ref().clone());
        Rejection { path, line: rejection.line, dn: rejection.dn, reason: rejection.reason }
    };
    all.into_iter().take(100).map(converted).collect()
}

/// Attribute descriptions, each with its syntax and the number of its values that violate this syntax.
pub type Misfits = Vec<(String, String, u64)>;

pub fn misfits_of(all: Vec<backmdb::InvalidValues>) -> Misfits {
    all.into_iter().map(|invalid| (invalid.attribute, invalid.syntax, invalid.count)).collect()
}

record!(Built from backmdb::Built {
    entries: u64,
    read: u64,
    duplicates: u64,
    dropped: u64,
    stale: Vec<u64>,
    rejections: Vec<Rejection> = reported(rejections),
    misfits: Misfits = misfits_of(misfits),
    completed: String = completed.hex(),
    bytes: u64,
    pages: u64,
    tables: BTreeMap<String, u64>,
    phases: BTreeMap<&'static str, f64> = phases.into_iter().collect(),
} beside {
    rejected: usize = rejections.len(),
});

/// The configuration of a database in slapd, and its schema.
#[pyclass(frozen, module = "loader._native")]
pub struct Database {
    schema: Py<Schema>,
    settings: Settings,
}

impl Database {
    pub fn parts(&self) -> (&schema::Schema, &Settings) {
        (&self.schema.get().0, &self.settings)
    }
}

/// The fields of `loader.sinks.mdb.Target`.
#[derive(FromPyObject)]
pub struct Target {
    schema: Py<Schema>,
    settings: Configured,
    tables: Vec<String>,
    map_size: u64,
    server_id: u16,
}

argument!(
    /// The fields of `loader.backmdb.Settings`.
    Configured for Settings {
        suffixes: Vec<String>,
        foreign: Vec<String>,
        root_dn: Option<String>,
        indexes: Vec<(String, Vec<String>)> =
            indexes.into_iter().map(index).collect::<PyResult<_>>()?,
        #[pyo3(attribute("hash64"))]
        wide_hash: bool,
        #[pyo3(attribute("intlen"))]
        integer_length: usize,
        #[pyo3(attribute("substr"))]
        substrings: (usize, usize, usize) =
            Substrings { min: substrings.0, max: substrings.1, any: substrings.2 },
        #[pyo3(attribute("multival"))]
        apart_above: Vec<(String, u32)>,
        #[pyo3(attribute("sortvals"))]
        sorted: Vec<String>,
        #[pyo3(attribute("idlexp"))]
        list_exponent: u32,
        max_entry_size: usize,
        last_mod: bool,
        translucent: bool,
        of_2_7: bool,
        page_size: u32,
    } and Settings::default()
);

#[pymethods]
impl Database {
    #[new]
    fn new(target: Target) -> PyResult<Self> {
        let Target { schema, settings, tables, map_size, server_id } = target;
        let has = |table: &str| tables.iter().any(|name| name == table);
        let settings = Settings {
            map_size,
            of_2_4: !has("id2v"),
            has_id2v: has("id2v"),
            has_ixck: has("ixck"),
            server_id,
            ..settings.0
        };
        let lengths = (4..=backmdb::LONGEST_INTEGER).contains(&settings.integer_length);
        if !lengths || !(1..32).contains(&settings.list_exponent) {
            return Err(PyValueError::new_err("intlen is 4 to 8, idlexp 1 to 31"));
        }
        Ok(Self { schema, settings })
    }
}

argument!(
    /// The fields of `loader.defaults.Resources`.
    Resources for VerifyMeans { memory: usize, jobs: usize, scratch: PathBuf }
);

/// Maximum number of blocks in a queue; so many blocks take about 10 MB.
const CAPACITY: usize = 24;

/// A queue of LDIF blocks between connections and a build.
#[pyclass(frozen, module = "loader._native")]
#[derive(Debug)]
pub struct Feed(pub Arc<ldif::Feed>);

#[pymethods]
impl Feed {
    #[new]
    fn new() -> Self {
        Self(Arc::new(ldif::Feed::new(CAPACITY)))
    }

    fn close(&self) {
        self.0.close();
    }

    fn break_off(&self) {
        self.0.break_off();
    }

    fn repeat(&self) {
        self.0.repeat();
    }
}

/// The fields of `loader.sinks.mdb.LiveSource`.
#[derive(Debug, FromPyObject)]
pub struct Live {
    pub head: Option<PathBuf>,
    read_again: Py<PyAny>,
    renamed: Py<PyAny>,
}

impl Live {
    pub fn reread(&self, orphans: Vec<Orphan>) -> PyResult<Vec<PathBuf>> {
        let rows: Vec<_> = orphans.into_iter().map(|orphan| (orphan.parent, orphan.dn, orphan.uuid)).collect();
        Python::attach(|py| self.read_again.call1(py, (rows,))?.extract(py))
    }

    pub fn renamed(&self, uuids: Vec<String>) -> PyResult<()> {
        Python::attach(|py| self.renamed.call1(py, (uuids,)).map(drop))
    }
}

#[derive(FromPyObject)]
pub enum Input {
    Feed(Py<Feed>),
    Descriptor(Descriptor),
    Path(PathBuf),
}

impl From<Input> for Source {
    fn from(input: Input) -> Self {
        match input {
            Input::Feed(feed) => Self::Feed(Arc::clone(&feed.get().0)),
            Input::Descriptor(fd) => Self::Stream(fd.0),
            Input::Path(path) => Self::Path(path),
        }
    }
}

argument!(
    /// The fields of `loader.sinks.mdb.BuildRules`.
    BuildRules for Options {
        now: String,
        #[pyo3(attribute("rejects_path"))]
        rejects: PathBuf,
        first: u64,
        #[pyo3(attribute("value_check"))]
        values: String = one_of(ValueCheck::from_name(&values), &values, "value check")?,
        file_urls: bool,
        max_rejects: u64,
        write_context: bool,
        check_schema: bool,
        complete_naming: bool,
        account: bool,
        as_slapadd: bool,
        claimed: Option<Vec<String>>,
    } and Options::default()
);

#[pyfunction]
pub fn build(
    inputs: Vec<Input>,
    out_path: PathBuf,
    database: &Database,
    rules: BuildRules,
    limits: Resources,
    live: Option<Live>,
    counters: &Counters,
) -> PyResult<Built> {
    let VerifyMeans { memory, jobs, scratch } = limits.0;
    let options = Options { memory, jobs, scratch, ..rules.0 };
    let sources = inputs.into_iter().map(Source::from).collect();
    let (schema, settings) = database.parts();
    let exception = Mutex::new(None);
    let failed = |error: PyErr| {
        *lock(&exception) = Some(error);
        Error::new(Code::Cancelled, "reading entries again from the server failed")
    };
    let callbacks = live.as_ref().map(|live| {
        let renamed = |uuids| live.renamed(uuids).map_err(failed);
        (live.head.as_deref(), |orphans| live.reread(orphans).map_err(failed), renamed)
    });
    let built = counters.run(|counters| {
        let live =
            callbacks.as_ref().map(|(head, read_again, renamed)| LiveSource { head: *head, read_again, renamed });
        backmdb::build(sources, live, &out_path, schema, settings, &options, counters)
    });
    // A callback's exception explains more than the core's error that results from it.
    let exception = lock(&exception).take();
    built.map_err(|error| exception.unwrap_or(error))
}

#[pyfunction]
pub fn verify(
    path: PathBuf,
    database: &Database,
    limits: Resources,
    counters: &Counters,
    full: bool,
    new: bool,
) -> PyResult<u64> {
    counters.run(|counters| backmdb::verify(&path, database.parts(), &limits.0, (full, new), counters))
}

record!(SplitResult from SplitCounts { entries: u64, newest: BTreeMap<String, String> });

#[pyfunction]
pub fn split(
    inputs: Vec<Input>,
    schema: &Schema,
    shares: Vec<(Vec<String>, PathBuf)>,
    counters: &Counters,
    file_urls: bool,
    claim: Stamp,
) -> PyResult<Vec<SplitResult>> {
    let sources = inputs.into_iter().map(Source::from).collect();
    let shares: Vec<SplitTarget> = shares.into_iter().map(|(suffixes, path)| SplitTarget { suffixes, path }).collect();
    let claim = claim.as_ref().map(|(root, csns)| (root.as_str(), csns.as_slice()));
    counters.run(|counters| {
        let counts = backmdb::split::split(sources, file_urls, &schema.0, &shares, claim, counters)?;
        Ok::<_, Error>(counts.into_iter().map(SplitResult::from).collect::<Vec<_>>())
    })
}

fn index((name, methods): (String, Vec<String>)) -> PyResult<(String, Vec<Method>)> {
    let method = |text: String| one_of(Method::from_name(&text), &text, "kind of index");
    Ok((name, methods.into_iter().map(method).collect::<PyResult<_>>()?))
}
