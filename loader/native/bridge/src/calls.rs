//! Compares DNs, and reads, checks and rewrites LDIF.

use std::collections::{HashMap, HashSet};
use std::io::Cursor;
use std::path::PathBuf;

use common::{CancellablePipe, Code, Error};
use ldif::walk::each_record;
use ldif::{Field, Input};
use pyo3::prelude::*;
use tree::Names;
use tree::join::ContextCsnStamp;
use tree::names::Aliases;

use crate::gate::{Counters, Descriptor};
use crate::results::{Arrangement, ScanResult, Shard, argument};

#[pyfunction]
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

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
    Descriptor(Descriptor),
    Bytes(Vec<u8>),
}

#[pyfunction]
pub fn records(
    text: Text,
    mut keys: Option<HashSet<Vec<u8>>>,
    most: usize,
    counters: &Counters,
) -> PyResult<Vec<Entry>> {
    counters.run(|counters| {
        let input = match text {
            Text::Descriptor(Descriptor(fd)) => Input::from_fd(fd, counters)?,
            Text::Bytes(bytes) => Input::from_reader(Cursor::new(bytes)),
        };
        let (mut entries, mut enough) = (Vec::new(), false);
        let end = each_record(input, counters, |record| {
            let entry = record.entry()?;
            // A key is removed, because only the first record with a DN counts.
            let mut is_first = |keys: &mut HashSet<_>| schema::dn_key(&entry.dn).is_ok_and(|key| keys.remove(&key));
            if keys.as_mut().is_none_or(&mut is_first) {
                let name = String::from_utf8_lossy(&entry.dn).into_owned();
                entries.push((name, entry.fields.map(attribute).collect::<common::Result<_>>()?));
                enough = entries.len() == most;
            }
            if enough { Err(Error::new(Code::Cancelled, "enough was read")) } else { Ok(()) }
        });
        match end {
            Err(error) if !enough => Err(error),
            _ => Ok(entries),
        }
    })
}

fn attribute(field: common::Result<Field<'_>>) -> common::Result<(String, Vec<u8>)> {
    let field = field?;
    let name = String::from_utf8_lossy(field.description()).into_owned();
    Ok((name, field.value()?.into_owned()))
}

#[pyfunction]
pub fn scan(paths: Vec<PathBuf>, counters: &Counters) -> PyResult<ScanResult> {
    counters.run(|counters| tree::scan(&paths, counters))
}

#[pyfunction]
pub fn shard(fd: Descriptor, out_path: PathBuf, drop: Vec<String>, counters: &Counters) -> PyResult<Shard> {
    let drop = Names::new(drop);
    counters.run(|counters| tree::shard(Input::from_fd(fd.0, counters)?, &out_path, &drop, counters))
}

#[pyfunction]
pub fn parents_first(fd: Descriptor, out_path: PathBuf, scratch: PathBuf, counters: &Counters) -> PyResult<()> {
    counters.run(|counters| tree::parents_first(Input::from_fd(fd.0, counters)?, &out_path, &scratch, counters))
}

argument!(
    /// The fields of `loader.ldif.ArrangeTask`.
    ArrangeTask for tree::Task {
        paths: Vec<PathBuf>,
        again: Vec<PathBuf>,
        root: String,
        context_csns: Vec<String>,
        compress: bool,
        drop_orphans: bool,
        name_orphans: bool,
    }
);

#[pyfunction]
pub fn arrange(task: ArrangeTask, out_dir: PathBuf, counters: &Counters) -> PyResult<Arrangement> {
    counters.run(|counters| tree::arrange(&task.0, &out_dir, counters))
}

/// The DN of the root entry, and its contextCSNs.
pub type Stamp = Option<(String, Vec<String>)>;

#[pyfunction]
#[pyo3(signature = (paths, fd, counters, stamp=None, aliases=HashMap::new()))]
pub fn join(
    paths: Vec<PathBuf>,
    fd: Descriptor,
    counters: &Counters,
    stamp: Stamp,
    aliases: HashMap<String, String>,
) -> PyResult<u64> {
    let stamp = stamp.map(|(root, csns)| ContextCsnStamp::new(&root, &csns));
    let mut sink = CancellablePipe::new(fd.0, &counters.0);
    let aliases = Aliases::new(aliases);
    counters.run(|counters| tree::join(&paths, &mut sink, stamp, &aliases, counters))
}
