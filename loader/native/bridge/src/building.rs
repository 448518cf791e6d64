//! The native builder's calls: a schema is read once, then databases are built with it.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use backmdb::split::SplitTarget;
use backmdb::{LiveSource, Method, Options, Settings, Source, ValueCheck};
use common::{Code, WithCode};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use schema::{Definition, Kind};
use values::keys::Substrings;

use crate::counters::Counters;
use crate::error::{both, one_of, raised};
use crate::feed::{Asked, Feed};
use crate::gate::{duplicate, enter};

#[pyclass(frozen, module = "loader._native")]
#[derive(Debug)]
pub struct Schema(schema::Schema);

impl Schema {
    pub fn inner(&self) -> &schema::Schema {
        &self.0
    }
}

/// Name -> what `rule` tells, of the types of which it tells anything.
fn told<'a>(
    kinds: impl Iterator<Item = &'a schema::AttributeType>,
    rule: impl Fn(&schema::AttributeType) -> Option<&str>,
) -> HashMap<String, String> {
    kinds.filter_map(|kind| Some((kind.name.clone(), rule(kind)?.to_owned()))).collect()
}

type SchemaFact = (&'static str, String, Vec<String>, bool, String, String);

fn names_of(names: &[String], oid: &str) -> Vec<String> {
    names.iter().cloned().chain([oid.to_owned()]).collect()
}

#[pymethods]
impl Schema {
    fn foreign(&self) -> HashMap<String, String> {
        told(self.0.attributes(), schema::AttributeType::of_other_module)
    }

    /// Kind, name, all names, whether it is compiled in, and what of it decides what is stored.
    fn facts(&self) -> Vec<SchemaFact> {
        let attributes = self.0.attributes().map(|one| {
            let names = names_of(&one.names, &one.oid);
            let (stored, keys) = self.0.attribute_meaning(one);
            ("attribute", one.name.clone(), names, one.builtin, stored, keys)
        });
        let classes = self.0.object_classes().map(|one| {
            let names = names_of(&one.names, &one.oid);
            let (stored, keys) = self.0.class_meaning(one);
            ("class", one.name.clone(), names, one.builtin, stored, keys)
        });
        attributes.chain(classes).collect()
    }

    fn unknown(&self, descriptions: Vec<String>) -> Vec<String> {
        descriptions.into_iter().filter(|text| self.0.describe(text.as_bytes()).is_err()).collect()
    }

    fn unproven(&self, descriptions: Vec<String>) -> HashMap<String, String> {
        let base = |text: &String| text.split(';').next().unwrap_or_default().to_owned();
        let named = descriptions.iter().filter_map(|text| self.0.attribute(base(text).as_bytes()));
        told(named.map(|id| self.0.get(id)), schema::AttributeType::unsupported_rule)
    }
}

#[pyfunction]
#[pyo3(name = "schema", signature = (definitions, options, *, dynamic_objects=false, password_policy=false))]
pub fn read_schema(
    py: Python<'_>,
    definitions: Vec<(String, String, bool)>,
    options: Vec<String>,
    dynamic_objects: bool,
    password_policy: bool,
) -> PyResult<Schema> {
    let definitions: Vec<Definition> =
        definitions.into_iter().map(definition).collect::<PyResult<_>>()?;
    let settings =
        schema::Settings { attribute_options: options, dynamic_objects, password_policy };
    let read = schema::Schema::read(&definitions, settings).with_code(Code::Schema);
    raised(py, read).map(Schema)
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
#[derive(Debug)]
pub struct Rejection {
    pub path: Option<PathBuf>,
    pub line: u64,
    pub dn: String,
    pub reason: String,
}

#[pyclass(frozen, get_all, module = "loader._native")]
#[derive(Debug)]
pub struct Built {
    entries: u64,
    read: u64,
    rejected: u64,
    duplicates: u64,
    dropped: u64,
    stale: Vec<u64>,
    rejections: Vec<Py<Rejection>>,
    misfits: Vec<(String, String, u64)>,
    completed: String,
    bytes: u64,
    pages: u64,
    tables: BTreeMap<String, u64>,
    phases: BTreeMap<&'static str, f64>,
}

/// The first hundred; all are in the reject file.
pub fn first_rejections(
    py: Python<'_>,
    all: impl Iterator<Item = (Option<Arc<PathBuf>>, u64, String, String)>,
) -> PyResult<Vec<Py<Rejection>>> {
    all.take(100)
        .map(|(path, line, dn, reason)| {
            let path = path.map(|path| path.as_ref().clone());
            Py::new(py, Rejection { path, line, dn, reason })
        })
        .collect()
}

impl Built {
    fn new(py: Python<'_>, built: backmdb::Built) -> PyResult<Self> {
        let rejected = built.rejections.len() as u64;
        let told = built.rejections.into_iter().map(|one| (one.path, one.line, one.dn, one.reason));
        Ok(Self {
            entries: built.entries,
            read: built.records,
            rejected,
            duplicates: built.duplicates,
            dropped: built.dropped,
            stale: built.stale,
            rejections: first_rejections(py, told)?,
            misfits: built
                .misfits
                .into_iter()
                .map(|one| (one.attribute, one.syntax, one.count))
                .collect(),
            completed: built.completed.hex(),
            bytes: built.bytes,
            pages: built.pages,
            tables: built.tables,
            phases: built.phases.into_iter().collect(),
        })
    }
}

/// What slapd is configured to do with one database, and its schema.
#[pyclass(frozen, module = "loader._native")]
#[derive(Debug)]
pub struct Database {
    schema: Py<Schema>,
    settings: Settings,
}

impl Database {
    pub fn parts(&self) -> (&schema::Schema, &Settings) {
        (&self.schema.get().0, &self.settings)
    }
}

#[pymethods]
impl Database {
    #[new]
    #[pyo3(signature = (
        schema, *, suffixes, foreign, root_dn, indexes, hash64, intlen, substr, multival, sortvals, idlexp,
        max_entry_size, map_size, tables, last_mod, translucent, of_2_7, page_size, server_id
    ))]
    fn new(
        schema: Py<Schema>,
        suffixes: Vec<String>,
        foreign: Vec<String>,
        root_dn: Option<String>,
        indexes: Vec<(String, Vec<String>)>,
        hash64: bool,
        intlen: usize,
        substr: (usize, usize, usize),
        multival: Vec<(String, u32)>,
        sortvals: Vec<String>,
        idlexp: u32,
        max_entry_size: usize,
        map_size: u64,
        tables: Vec<String>,
        last_mod: bool,
        translucent: bool,
        of_2_7: bool,
        page_size: u32,
        server_id: u16,
    ) -> PyResult<Self> {
        let settings = Settings {
            suffixes,
            foreign,
            root_dn,
            indexes: indexes.into_iter().map(index).collect::<PyResult<_>>()?,
            wide_hash: hash64,
            integer_length: intlen,
            substrings: Substrings { min: substr.0, max: substr.1, any: substr.2 },
            apart_above: multival,
            sorted: sortvals,
            list_exponent: idlexp,
            max_entry_size,
            map_size,
            of_2_4: !tables.iter().any(|name| name == "id2v"),
            has_id2v: tables.iter().any(|name| name == "id2v"),
            has_ixck: tables.iter().any(|name| name == "ixck"),
            last_mod,
            translucent,
            of_2_7,
            page_size,
            server_id,
        };
        let lengths = (4..=backmdb::LONGEST_INTEGER).contains(&intlen);
        if !lengths || !(1..32).contains(&idlexp) {
            return Err(PyValueError::new_err("intlen is 4 to 8, idlexp 1 to 31"));
        }
        Ok(Self { schema, settings })
    }
}

#[derive(FromPyObject)]
pub enum PathOrDescriptor {
    Descriptor(i32),
    Path(PathBuf),
}

#[derive(FromPyObject)]
pub enum Input {
    Feed(Py<Feed>),
    Other(PathOrDescriptor),
}

impl Input {
    fn source(self) -> PyResult<Source> {
        match self {
            Self::Feed(feed) => Ok(Source::Feed(Arc::clone(&feed.get().0))),
            Self::Other(other) => source(other),
        }
    }
}

#[pyfunction]
#[pyo3(signature = (
    inputs, out_path, database, counters, *, now, write_context, claimed, value_check, file_urls, memory,
    jobs, scratch, max_rejects, rejects_path, check_schema=true, complete_naming=true,
    account=false, first=0, head=None, read_again=None, renamed=None
))]
pub fn build(
    py: Python<'_>,
    inputs: Vec<Input>,
    out_path: PathBuf,
    database: &Database,
    counters: &Counters,
    now: String,
    write_context: bool,
    claimed: Option<Vec<String>>,
    value_check: &str,
    file_urls: bool,
    memory: usize,
    jobs: usize,
    scratch: PathBuf,
    max_rejects: u64,
    rejects_path: PathBuf,
    check_schema: bool,
    complete_naming: bool,
    account: bool,
    first: u64,
    head: Option<PathBuf>,
    read_again: Option<Py<PyAny>>,
    renamed: Option<Py<PyAny>>,
) -> PyResult<Built> {
    let values = one_of(ValueCheck::from_name(value_check), value_check, "value check")?;
    let options = Options {
        now,
        first,
        write_context,
        claimed,
        values,
        check_schema,
        complete_naming,
        account,
        file_urls,
        memory,
        jobs,
        scratch,
        max_rejects,
        rejects: rejects_path,
    };
    let sources = inputs.into_iter().map(Input::source).collect::<PyResult<Vec<_>>>()?;
    let (schema, settings) = database.parts();
    let asked = read_again.map(|read_again| Asked::new(read_again, renamed));
    let built = enter(py, &counters.0, || {
        let ask =
            |orphans| asked.as_ref().map_or_else(|| Ok(Vec::new()), |one| one.reread(orphans));
        let renamed = |uuids| asked.as_ref().map_or(Ok(()), |one| one.renamed(uuids));
        let beside = asked.as_ref().map(|_| LiveSource {
            head: head.as_deref(),
            read_again: &ask,
            renamed: &renamed,
        });
        backmdb::build(sources, beside, &out_path, schema, settings, &options, &counters.0)
    });
    match (built, asked.and_then(Asked::exception)) {
        (Err(_), Some(raised)) => Err(raised),
        (built, _) => Built::new(py, built?),
    }
}

#[pyfunction]
#[pyo3(signature = (path, database, counters, *, full, memory, jobs, scratch, new=true))]
pub fn verify(
    py: Python<'_>,
    path: PathBuf,
    database: &Database,
    counters: &Counters,
    full: bool,
    memory: usize,
    jobs: usize,
    scratch: PathBuf,
    new: bool,
) -> PyResult<u64> {
    let means = backmdb::VerifyMeans { memory, jobs, scratch };
    let (schema, settings) = database.parts();
    let means = full.then_some((&means, new));
    enter(py, &counters.0, || backmdb::verify(&path, schema, settings, means, &counters.0))
}

/// What a database got of an LDIF that was divided.
#[pyclass(frozen, get_all, module = "loader._native")]
#[derive(Debug)]
pub struct SplitResult {
    entries: u64,
    newest: BTreeMap<String, String>,
}

#[pyfunction]
#[pyo3(signature = (inputs, schema, shares, counters, *, file_urls, root=None, claimed=None))]
pub fn split(
    py: Python<'_>,
    inputs: Vec<PathOrDescriptor>,
    schema: &Schema,
    shares: Vec<(Vec<String>, PathBuf)>,
    counters: &Counters,
    file_urls: bool,
    root: Option<String>,
    claimed: Option<Vec<String>>,
) -> PyResult<Vec<SplitResult>> {
    let claim = both(root.as_deref(), claimed.as_deref(), "root and claimed")?;
    let sources = inputs.into_iter().map(source).collect::<PyResult<Vec<_>>>()?;
    let shares: Vec<SplitTarget> =
        shares.into_iter().map(|(suffixes, path)| SplitTarget { suffixes, path }).collect();
    let work = || backmdb::split::split(sources, file_urls, &schema.0, &shares, claim, &counters.0);
    let got = enter(py, &counters.0, work)?;
    Ok(got
        .into_iter()
        .map(|one| SplitResult { entries: one.entries, newest: one.newest })
        .collect())
}

fn index((name, methods): (String, Vec<String>)) -> PyResult<(String, Vec<Method>)> {
    let known = |method: String| one_of(Method::from_name(&method), &method, "kind of index");
    Ok((name, methods.into_iter().map(known).collect::<PyResult<_>>()?))
}

fn source(input: PathOrDescriptor) -> PyResult<Source> {
    Ok(match input {
        PathOrDescriptor::Path(path) => Source::Path(path),
        PathOrDescriptor::Descriptor(fd) => Source::Stream(duplicate(fd)?),
    })
}
