//! What the calls return. All but `EntryDigests` are plain records.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use common::lock;
use pyo3::prelude::*;
use tree::Digest;

use crate::counters::Counters;
use crate::gate;

type FirstUses = BTreeMap<String, (String, u64)>;

#[pyclass(frozen, get_all, module = "loader._native")]
#[derive(Debug)]
pub struct ScanResult {
    entries: u64,
    bytes: u64,
    attributes: FirstUses,
    object_classes: FirstUses,
    first_dn: Option<String>,
    context_csns: Vec<String>,
    max_csns: BTreeMap<String, String>,
    with_uuid: u64,
    with_csn: u64,
}

impl From<tree::Scan> for ScanResult {
    fn from(scan: tree::Scan) -> Self {
        Self {
            entries: scan.entries,
            bytes: scan.bytes,
            attributes: as_text(scan.attributes),
            object_classes: as_text(scan.object_classes),
            first_dn: scan.first_dn,
            context_csns: scan.context_csns,
            max_csns: scan.max_csns,
            with_uuid: scan.with_uuid,
            with_csn: scan.with_csn,
        }
    }
}

fn as_text(uses: tree::scan::FirstUses) -> FirstUses {
    let text = |(name, (path, line)): (String, (PathBuf, u64))| {
        (name, (path.to_string_lossy().into_owned(), line))
    };
    uses.into_iter().map(text).collect()
}

#[pyclass(frozen, get_all, module = "loader._native")]
#[derive(Debug)]
pub struct Shard {
    entries: u64,
    bytes: u64,
    checksum: String,
}

impl From<tree::Shard> for Shard {
    fn from(shard: tree::Shard) -> Self {
        Self { entries: shard.entries, bytes: shard.bytes, checksum: shard.checksum }
    }
}

#[pyclass(frozen, get_all, module = "loader._native")]
#[derive(Debug)]
pub struct Arrangement {
    entries: u64,
    duplicates: u64,
    dropped: u64,
    interior: u64,
    checksum: String,
    files: Vec<(String, u64, String)>,
    taken: Vec<(String, String)>,
    orphans: Vec<(String, String, String)>,
    renamed: Vec<String>,
}

fn tallied((name, tally): (String, tree::fingerprint::ShardTotals)) -> (String, u64, String) {
    (name, tally.entries, tally.checksum.hex())
}

impl From<tree::Arrangement> for Arrangement {
    fn from(done: tree::Arrangement) -> Self {
        Self {
            entries: done.entries,
            duplicates: done.duplicates,
            dropped: done.dropped,
            interior: done.interior,
            checksum: done.checksum,
            files: done.files.into_iter().map(tallied).collect(),
            taken: done.taken,
            orphans: done.orphans.into_iter().map(|one| (one.parent, one.dn, one.uuid)).collect(),
            renamed: done.renamed,
        }
    }
}

#[pyclass(frozen, get_all, module = "loader._native")]
#[derive(Debug)]
pub struct Difference {
    only_left: u64,
    only_right: u64,
    changed: u64,
    samples: Vec<(&'static str, String)>,
    subtrees: Vec<Subtree>,
}

/// Its name, entries and checksum of each side, entries that differ.
type Subtree = (Option<String>, (u64, String), (u64, String), u64);

impl From<tree::Difference> for Difference {
    fn from(found: tree::Difference) -> Self {
        let samples = found.samples.into_iter().map(|(change, dn)| (change.as_str(), dn)).collect();
        Self {
            only_left: found.only_left,
            only_right: found.only_right,
            changed: found.changed,
            samples,
            subtrees: found.subtrees.into_iter().map(subtree).collect(),
        }
    }
}

fn subtree(found: tree::Subtree) -> Subtree {
    let side = |side: tree::digest::SubtreeTotals| (side.entries, side.checksum.hex());
    (found.dn, side(found.left), side(found.right), found.changes)
}

#[pyclass(frozen, module = "loader._native")]
#[derive(Debug)]
pub struct EntryDigests {
    pub digest: Mutex<Digest>,
    counters: Arc<common::Counters>,
}

impl EntryDigests {
    pub fn new(digest: Digest, counters: &Counters) -> Self {
        Self { digest: Mutex::new(digest), counters: Arc::clone(&counters.0) }
    }

    /// Another thread may be adding: wait without the interpreter lock.
    fn with<T: Send>(&self, py: Python<'_>, act: impl FnOnce(&mut Digest) -> T + Send) -> T {
        py.detach(|| act(&mut lock(&self.digest)))
    }
}

#[pymethods]
impl EntryDigests {
    fn add_path(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        gate::enter(py, &self.counters, || {
            let mut digest = lock(&self.digest);
            digest.add_path(&path, &self.counters)
        })
    }

    fn add_fd(&self, py: Python<'_>, fd: i32) -> PyResult<()> {
        let fd = gate::duplicate(fd)?;
        gate::enter(py, &self.counters, || {
            let mut digest = lock(&self.digest);
            digest.add_stream(ldif::Input::from_fd(fd, &self.counters)?, &self.counters)
        })
    }

    #[getter]
    fn entries(&self, py: Python<'_>) -> u64 {
        self.with(py, |digest| digest.entries())
    }

    #[getter]
    fn checksum(&self, py: Python<'_>) -> String {
        self.with(py, |digest| digest.checksum())
    }

    fn diff(&self, py: Python<'_>, other: &Self, limit: usize) -> PyResult<Difference> {
        if std::ptr::eq(self, other) {
            return Ok(tree::Difference::default().into());
        }
        let found = gate::enter(py, &self.counters, || {
            // Always in the same order, so that a.diff(b) and b.diff(a) cannot wait for each other.
            let (left, right) = lock_both(&self.digest, &other.digest);
            tree::Difference::between(&left, &right, limit)
        })?;
        Ok(found.into())
    }
}

type Guard<'a> = std::sync::MutexGuard<'a, Digest>;

fn lock_both<'a>(left: &'a Mutex<Digest>, right: &'a Mutex<Digest>) -> (Guard<'a>, Guard<'a>) {
    if std::ptr::from_ref(left) < std::ptr::from_ref(right) {
        let left = lock(left);
        (left, lock(right))
    } else {
        let right = lock(right);
        (lock(left), right)
    }
}
