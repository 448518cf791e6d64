//! The functions of the module: each converts its arguments, calls the core once, and converts the result.

use std::collections::{HashMap, HashSet};
use std::io::Cursor;
use std::path::PathBuf;

use common::{CancellablePipe, Code, Error};
use ldif::walk::each_record;
use ldif::{Field, Input};
use pyo3::prelude::*;
use tree::join::ContextCsnStamp;
use tree::names::Aliases;
use tree::{Digest, Names};

use crate::error::both;
use crate::gate::{Counters, duplicate, enter};
use crate::results::{Arrangement, EntryDigests, ScanResult, Shard};

#[pyfunction]
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Returns `None` if the text is not a DN.
#[pyfunction]
pub fn dn_key(text: &[u8]) -> Option<Vec<u8>> {
    schema::dn_key(text).ok()
}

#[pyfunction]
pub fn dn_parent(text: &[u8]) -> Vec<u8> {
    let parent = schema::split_leaf(text).map_or(&b""[..], |(_, parent)| parent);
    parent.trim_ascii_start().to_vec()
}

type Entry = (String, Vec<(String, Vec<u8>)>);

#[derive(FromPyObject)]
pub enum Text {
    Descriptor(i32),
    Bytes(Vec<u8>),
}

#[pyfunction]
pub fn records(
    py: Python<'_>,
    text: Text,
    mut keys: Option<HashSet<Vec<u8>>>,
    most: usize,
    counters: &Counters,
) -> PyResult<Vec<Entry>> {
    let counters = &counters.0;
    let (fd, bytes) = match text {
        Text::Descriptor(fd) => (Some(duplicate(fd)?), Vec::new()),
        Text::Bytes(bytes) => (None, bytes),
    };
    let work = || {
        let input = match fd {
            Some(fd) => Input::from_fd(fd, counters)?,
            None => Input::from_reader(Cursor::new(bytes)),
        };
        let (mut found, mut enough) = (Vec::new(), false);
        let walked = each_record(input, counters, |record| {
            let entry = record.entry()?;
            if keys.as_mut().is_none_or(|keys| is_among(&entry.dn, keys)) {
                let name = String::from_utf8_lossy(&entry.dn).into_owned();
                found.push((name, entry.fields.map(attribute).collect::<common::Result<_>>()?));
                enough = found.len() == most;
            }
            if enough { Err(Error::new(Code::Cancelled, "enough was read")) } else { Ok(()) }
        });
        walked.map_or_else(|error| if enough { Ok(()) } else { Err(error) }, |_| Ok(()))?;
        Ok::<_, Error>(found)
    };
    enter(py, counters, work)
}

/// Returns whether `keys` contains the key of the DN, and removes it: only the first record with a DN counts.
fn is_among(dn: &[u8], keys: &mut HashSet<Vec<u8>>) -> bool {
    schema::dn_key(dn).is_ok_and(|key| keys.remove(&key))
}

fn attribute(field: common::Result<Field<'_>>) -> common::Result<(String, Vec<u8>)> {
    let field = field?;
    let name = String::from_utf8_lossy(field.description()).into_owned();
    Ok((name, field.value()?.into_owned()))
}

#[pyfunction]
pub fn scan(py: Python<'_>, paths: Vec<PathBuf>, counters: &Counters) -> PyResult<ScanResult> {
    enter(py, &counters.0, || tree::scan(&paths, &counters.0)).map(ScanResult::from)
}

#[pyfunction]
pub fn shard(
    py: Python<'_>,
    fd: i32,
    out_path: PathBuf,
    drop: Vec<String>,
    counters: &Counters,
) -> PyResult<Shard> {
    let fd = duplicate(fd)?;
    let drop = Names::new(drop);
    let work = || {
        let input = Input::from_fd(fd, &counters.0)?;
        tree::shard(input, &out_path, &drop, &counters.0)
    };
    enter(py, &counters.0, work).map(Shard::from)
}

#[pyfunction]
pub fn parents_first(
    py: Python<'_>,
    fd: i32,
    out_path: PathBuf,
    scratch: PathBuf,
    counters: &Counters,
) -> PyResult<()> {
    let fd = duplicate(fd)?;
    let work = || {
        let input = Input::from_fd(fd, &counters.0)?;
        tree::parents_first(input, &out_path, &scratch, &counters.0)
    };
    enter(py, &counters.0, work)
}

/// The fields of `loader.ldif.ArrangeTask`.
#[derive(FromPyObject)]
pub struct ArrangeTask {
    paths: Vec<PathBuf>,
    again: Vec<PathBuf>,
    root: String,
    context_csns: Vec<String>,
    compress: bool,
    drop_orphans: bool,
    name_orphans: bool,
}

#[pyfunction]
pub fn arrange(
    py: Python<'_>,
    task: ArrangeTask,
    out_dir: PathBuf,
    counters: &Counters,
) -> PyResult<Arrangement> {
    let task = tree::Task {
        paths: &task.paths,
        again: &task.again,
        root: &task.root,
        context_csns: &task.context_csns,
        compress: task.compress,
        drop_orphans: task.drop_orphans,
        name_orphans: task.name_orphans,
    };
    enter(py, &counters.0, || tree::arrange(&task, &out_dir, &counters.0)).map(Arrangement::from)
}

#[pyfunction]
#[pyo3(signature = (paths, fd, counters, *, root=None, context_csns=None, aliases=None))]
pub fn join(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    fd: i32,
    counters: &Counters,
    root: Option<String>,
    context_csns: Option<Vec<String>>,
    aliases: Option<HashMap<String, String>>,
) -> PyResult<u64> {
    let stamp = both(root, context_csns, "root and context_csns")?;
    let stamp = stamp.map(|(root, csns)| ContextCsnStamp::new(&root, &csns));
    let mut sink = CancellablePipe::new(duplicate(fd)?, &counters.0);
    let aliases = Aliases::new(aliases.unwrap_or_default());
    enter(py, &counters.0, || tree::join(&paths, &mut sink, stamp, &aliases, &counters.0))
}

#[pyfunction(name = "tree")]
#[pyo3(signature = (ignore, counters, *, memory = usize::MAX, scratch = None))]
pub fn new_tree(
    ignore: Vec<String>,
    counters: &Counters,
    memory: usize,
    scratch: Option<PathBuf>,
) -> EntryDigests {
    let scratch = scratch.unwrap_or_else(std::env::temp_dir);
    EntryDigests::new(Digest::within(memory, &scratch, Names::new(ignore), &counters.0), counters)
}
