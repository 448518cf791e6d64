//! `loader._native`: the Python interface of the native core. `loader/_native.pyi` is the contract; the work is done by
//! other crates, such as `ldif` and `tree`.

// A call is a whole phase, so it has many arguments: positional ones are its data and counters, keywords are options.
#![allow(clippy::needless_pass_by_value, clippy::too_many_arguments)]
#![allow(clippy::struct_excessive_bools)]

mod auditing;
mod building;
mod calls;
mod cloning;
mod contents;
mod dump;
mod error;
mod feed;
mod gate;
mod loading;
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
    use super::auditing::{AuditReport, IndexCost, IndexCosts, audit, index_costs, shared_uuids};
    #[pymodule_export]
    use super::building::{Built, Database, Rejection, Schema, SplitResult, build, read_schema, split, verify};
    #[pymodule_export]
    use super::calls::{arrange, dn_key, dn_parent, join, new_tree, parents_first, records, scan, shard, version};
    #[pymodule_export]
    use super::cloning::{
        PageBlock, PageBlocks, Seen, clone_compact, clone_plain, clone_receive, clone_send, compact_in_pieces,
    };
    #[pymodule_export]
    use super::contents::{Contents, MetaPage, TableRecord, entry_with, new_entry};
    #[pymodule_export]
    use super::dump::{Dump, Exported, Sample};
    #[pymodule_export]
    use super::error::NativeError;
    #[pymodule_export]
    use super::feed::Feed;
    #[pymodule_export]
    use super::gate::Counters;
    #[pymodule_export]
    use super::loading::{Loaded, add};
    #[pymodule_export]
    use super::merging::{Merged, Plan, Slice, find_name, merge, plan};
    #[pymodule_export]
    use super::paging::{KnownPages, PagePacks};
    #[pymodule_export]
    use super::refreshing::{
        FoundChanges, Gap, Refreshed, Reindexed, Replayed, Transferred, logged, records_checksum, refresh, reindex,
        replay, transfer,
    };
    #[pymodule_export]
    use super::results::{Arrangement, Difference, EntryDigests, ScanResult, Shard};
    #[pymodule_export]
    use super::selecting::{SearchGroup, SearchesFound, Selected, Selection, searches, select};
    #[pymodule_export]
    use super::synth::{LearnResult, Template, learn};
    #[pymodule_export]
    use super::wire::{Channel, Part, Synced};

    use super::{Bound, PyAnyMethods, PyModule, PyResult};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // `loader/_native.pyi` already lists the names, so `__all__` would be a second list to maintain.
        module.delattr("__all__")?;
        super::error::give_attributes(module)
    }
}
