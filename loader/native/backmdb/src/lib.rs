//! Builds databases of OpenLDAP's back-mdb from LDIF.
//!
//! [`build`] has two phases. While reading, workers take chunks of the input in turn and encode their entries
//! ([`worker`], [`entry`]); values are written to id2e at once, index keys and names are sorted ([`gather`]). Then
//! entries are joined with their parents ([`join`]), IDs are assigned ([`numbering`], [`reorder`]), and the other
//! tables are written in the order of their keys ([`dn2i`], [`postings`]).
//!
//! The tables have the same contents as those of `servers/slapd/back-mdb` in OpenLDAP 2.4 to 2.6: the golden tests
//! compare them with slapadd's, key by key.

pub mod audit;
mod build;
pub mod changes;
mod checks;
pub mod chunks;
pub mod context;
mod copied;
mod descriptions;
mod dn2i;
mod draft;
mod encoded;
mod entry;
mod gather;
mod index_costs;
mod indexer;
mod indexes;
mod join;
mod live;
mod lookup;
mod names;
mod naming;
mod numbering;
pub mod operational;
mod orphans;
mod positions;
pub mod postings;
mod reading;
pub mod reindex;
mod rejects;
mod reorder;
mod rows;
mod settings;
mod shared;
mod shared_uuids;
pub mod split;
mod stored_keys;
mod subtrees;
mod superseded;
#[cfg(test)]
mod tests;
pub mod transfer;
mod verify;
mod worker;

/// The test fixture refers to this crate by name, because the crate `dump` uses the fixture, too.
#[cfg(test)]
extern crate self as backmdb;

use common::lock;

pub use build::{Built, LiveSource, build};
pub use chunks::Source;
pub use descriptions::InvalidValues;
pub use encoded::Rejection;
pub use index_costs::{IndexCost, IndexCosts, index_costs};
pub use indexes::LONGEST_INTEGER;
pub use ldif::{Code, Error, Result};
pub use live::{Renamed, Reread};
pub use positions::MOST_ENTRIES;
pub use settings::{Method, Options, Settings, ValueCheck};
pub use shared_uuids::{SharedUuid, shared_uuids};
pub use tree::Orphan;
pub use verify::{Resources as VerifyMeans, verify};

/// Returns the error for a value of id2e that `codec` cannot decode.
pub fn damaged_entry() -> Error {
    Error::new(Code::Damaged, "an entry in id2e is damaged")
}

fn uuid_text(uuid: u128) -> String {
    String::from_utf8_lossy(&values::uuid::spelled(uuid)).into_owned()
}
