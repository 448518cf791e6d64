//! The Python module `loader._native`. `loader/_native.pyi` specifies it. The other crates do the work.

// A call is a whole phase of a run, so it has many arguments.
#![allow(clippy::needless_pass_by_value, clippy::too_many_arguments)]
#![allow(clippy::struct_excessive_bools)]

mod auditing;
mod building;
mod calls;
mod cloning;
mod contents;
mod dump;
mod error;
mod gate;
mod merging;
mod paging;
mod refreshing;
mod results;
mod selecting;
mod synth;
mod wire;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::{
        auditing::{AuditReport, IndexCost, IndexCosts, audit, index_costs, shared_uuids},
        building::{Built, Database, Feed, Rejection, Schema, SplitResult, build, split, verify},
        calls::{arrange, dn_key, dn_parent, join, parents_first, records, scan, shard, version},
        cloning::{PageBlock, PageBlocks, Seen},
        cloning::{clone_compact, clone_plain, clone_receive, clone_send, compact_in_pieces},
        contents::{Contents, MetaPage, TableRecord, entry_with, new_entry},
        dump::{Dump, Exported, Sample},
        error::NativeError,
        gate::Counters,
        merging::{Plan, feed_slice, find_line, find_name, merge, plan},
        paging::{KnownPages, PagePacks},
        refreshing::{FoundChanges, Gap, Refreshed, Replayed, Transferred},
        refreshing::{logged, records_checksum, refresh, reindex, replay, transfer},
        results::{Arrangement, Difference, EntryDigests, ScanResult, Shard},
        selecting::{SearchGroup, SearchesFound, Selected, Selection, searches},
        synth::{LearnResult, Template, learn},
        wire::{Channel, Loaded, Part, Synced, add},
    };

    use super::{Bound, PyAnyMethods, PyModule, PyResult};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // pyo3 generates `__all__`. `loader/_native.pyi` has none, and the two must agree (stubtest).
        module.delattr("__all__")?;
        super::error::give_attributes(module)
    }
}
