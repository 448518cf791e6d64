//! Macros for the arguments and results of calls, and the results of `tree`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

use common::lock;
use pyo3::prelude::*;
use tree::{Digest, Names};

use crate::gate::Counters;

/// Declares a Python class with the fields of a result of the core. An expression converts a field whose type in the
/// core differs. Expressions also compute the fields in `beside`, which the core's struct lacks.
macro_rules! record {
    ($name:ident from $core:path {
        $($field:ident: $kind:ty $(= $value:expr)?),* $(,)?
    } $(beside { $($more:ident: $of_more:ty = $computed:expr),* $(,)? })?) => {
        #[pyo3::pyclass(frozen, get_all, module = "loader._native")]
        #[derive(Debug, Clone)]
        pub struct $name {
            $($field: $kind,)*
            $($($more: $of_more),*)?
        }

        impl From<$core> for $name {
            fn from(core: $core) -> Self {
                let $core { $($field,)* .. } = core;
                $($(let $more = $computed;)*)?
                $($(let $field = $value;)?)*
                Self { $($field,)* $($($more),*)? }
            }
        }
    };
}
pub(crate) use record;

/// Declares a Python class that keeps a value of the core for its methods. Its fields are computed from the value.
macro_rules! view {
    ($name:ident of $core:ident: $kind:ty { $($field:ident: $of_field:ty = $value:expr),* $(,)? }) => {
        #[pyo3::pyclass(frozen, module = "loader._native")]
        pub struct $name {
            $core: $kind,
            $(#[pyo3(get)] $field: $of_field,)*
        }

        impl From<$kind> for $name {
            fn from($core: $kind) -> Self {
                $(let $field = $value;)*
                Self { $core, $($field),* }
            }
        }
    };
}
pub(crate) use view;

/// Declares an argument: reads the attributes of a Python object into a struct of the core. An expression converts an
/// attribute whose type in the core differs. The expression after `and` provides the struct's other fields.
macro_rules! argument {
    ($(#[$meta:meta])* $name:ident for $core:path {
        $($(#[$of_field:meta])* $field:ident: $kind:ty $(= $value:expr)?),* $(,)?
    } $(and $rest:expr)?) => {
        $(#[$meta])*
        pub struct $name(pub $core);

        impl<'py> pyo3::FromPyObject<'_, 'py> for $name {
            type Error = PyErr;

            fn extract(object: pyo3::Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
                #[derive(pyo3::FromPyObject)]
                struct Fields {
                    $($(#[$of_field])* $field: $kind),*
                }
                type Core = $core;
                let Fields { $($field),* } = object.extract()?;
                $($(let $field = $value;)?)*
                Ok(Self(Core { $($field,)* $(..$rest)? }))
            }
        }
    };
}
pub(crate) use argument;

type FirstUses = BTreeMap<String, (String, u64)>;

record!(ScanResult from tree::Scan {
    entries: u64,
    bytes: u64,
    attributes: FirstUses = as_text(attributes),
    object_classes: FirstUses = as_text(object_classes),
    first_dn: Option<String>,
    context_csns: Vec<String>,
    max_csns: BTreeMap<String, String>,
});

fn as_text(uses: tree::scan::FirstUses) -> FirstUses {
    uses.into_iter().map(|(name, (path, line))| (name, (path.to_string_lossy().into_owned(), line))).collect()
}

record!(Shard from tree::Shard { entries: u64, bytes: u64, checksum: String });

record!(Arrangement from tree::Arrangement {
    entries: u64,
    duplicates: u64,
    dropped: u64,
    checksum: String,
    files: Vec<(String, u64, String)> =
        files.into_iter().map(|(name, totals)| (name, totals.entries, totals.checksum.hex())).collect(),
    taken: Vec<(String, String)>,
    orphans: Vec<(String, String, String)> =
        orphans.into_iter().map(|orphan| (orphan.parent, orphan.dn, orphan.uuid)).collect(),
    renamed: Vec<String>,
});

record!(Difference from tree::Difference {
    only_left: u64,
    only_right: u64,
    changed: u64,
    samples: Vec<(&'static str, String)> =
        samples.into_iter().map(|(change, dn)| (change.as_str(), dn)).collect(),
    subtrees: Vec<Subtree> = subtrees.into_iter().map(subtree).collect(),
});

/// The DN of the subtree's root; number of entries and checksum on both sides; number of entries that differ.
type Subtree = (Option<String>, (u64, String), (u64, String), u64);

fn subtree(subtree: tree::Subtree) -> Subtree {
    let side = |side: tree::fingerprint::Totals| (side.entries, side.checksum.hex());
    (subtree.dn, side(subtree.left), side(subtree.right), subtree.changes)
}

#[pyclass(frozen, module = "loader._native")]
pub struct EntryDigests {
    pub digest: Mutex<Digest>,
    counters: Counters,
}

impl EntryDigests {
    /// Locks the digest without the interpreter lock, because another thread may hold it while it adds entries.
    fn with<T: Send>(&self, act: impl FnOnce(&mut Digest) -> T + Send) -> T {
        Python::attach(|py| py.detach(|| act(&mut lock(&self.digest))))
    }
}

#[pymethods]
impl EntryDigests {
    #[new]
    #[pyo3(signature = (ignore, counters, *, memory = usize::MAX, scratch = std::env::temp_dir()))]
    fn new(ignore: Vec<String>, counters: &Counters, memory: usize, scratch: PathBuf) -> Self {
        let digest = Mutex::new(Digest::within(memory, &scratch, Names::new(ignore), &counters.0));
        Self { digest, counters: counters.clone() }
    }

    fn add_path(&self, path: PathBuf) -> PyResult<()> {
        self.counters.run(|counters| lock(&self.digest).add_path(&path, counters))
    }

    #[getter]
    fn entries(&self) -> u64 {
        self.with(|digest| digest.entries())
    }

    #[getter]
    fn checksum(&self) -> String {
        self.with(|digest| digest.checksum())
    }

    fn diff(&self, other: &Self, limit: usize) -> PyResult<Difference> {
        if std::ptr::eq(self, other) {
            return Ok(tree::Difference::default().into());
        }
        self.counters.run(|_| {
            // Locks in the same order for a.diff(b) as for b.diff(a), so that these two calls cannot deadlock.
            let swaps = std::ptr::from_ref(self) > std::ptr::from_ref(other);
            let (first, second) = if swaps { (other, self) } else { (self, other) };
            let (first, second) = (lock(&first.digest), lock(&second.digest));
            let (left, right) = if swaps { (second, first) } else { (first, second) };
            tree::Difference::between(&left, &right, limit)
        })
    }
}
