//! The database of OpenLDAP's back-mdb, built from LDIF.
//!
//! [`build`] goes in two phases. While reading, workers take chunks of the input in turn and encode
//! their entries ([`worker`], [`entry`]); values go to id2e at once, index keys and names to sorters
//! ([`gather`]). Then parents are found ([`join`]), IDs settled ([`numbering`], [`reorder`]), and the
//! other tables written in the order of their keys ([`dn2i`], [`postings`]).
//!
//! What the tables hold follows `servers/slapd/back-mdb` of OpenLDAP 2.4 to 2.6; equality with slapadd,
//! key by key, is what the golden tests hold it to.

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
mod indexer;
mod indexes;
mod join;
mod late_rejects;
mod live;
mod lookup;
mod names;
mod naming;
mod numbering;
pub mod operational;
mod orphans;
mod parents;
mod positions;
pub mod postings;
mod reading;
mod reject;
mod reorder;
mod rows;
mod settings;
mod shared;
pub mod split;
mod stored;
mod subtrees;
mod superseded;
mod verify;
mod worker;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use build::{Built, LiveSource, build};
pub use chunks::Source;
pub use descriptions::InvalidValues;
pub use encoded::Rejection;
pub use indexes::LONGEST_INTEGER;
pub use ldif::{Code, Error, Result};
pub use live::Reread;
pub use orphans::Orphan;
pub use positions::MOST_ENTRIES;
pub use settings::{Method, Options, Settings, ValueCheck};
pub use verify::{Resources as VerifyMeans, verify};

/// What an entry is that `codec` cannot read.
pub fn damaged_entry() -> Error {
    Error::new(Code::Damaged, "an entry in id2e is damaged")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A sorter's error as ours.
#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn sorting(error: extsort::Error) -> Error {
    match error {
        extsort::Error::Disk { dir: ref scratch, io: ref failure } => {
            let code = Error::from(std::io::Error::from(failure.kind())).code;
            let code = if code == Code::NoSpace { code } else { Code::Io };
            Error::new(code, error.to_string()).in_file(Some(scratch))
        }
        extsort::Error::Cancelled => Error::new(Code::Cancelled, "cancelled"),
        extsort::Error::Misuse(what) => Error::new(Code::Damaged, what),
    }
}

/// The file writer's error as ours.
#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
pub fn writing(error: lmdbfile::Error) -> Error {
    use lmdbfile::ErrorKind::{Full, Io, NoSpace, TooLong};
    let code = match error.kind {
        Full => Code::Full,
        NoSpace => Code::NoSpace,
        Io => Code::Io,
        TooLong => Code::TooLarge,
        _ => Code::Damaged,
    };
    Error::new(code, error.to_string())
}
