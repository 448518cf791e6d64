//! The entries of a database of back-mdb, read from the pages of a snapshot by several workers.
//!
//! id2e has an entry's attributes, dn2i its name and its parent's ID, id2v the values of attributes that have very many.
//! Each worker takes ranges of IDs ([`ranges`]) and goes through id2e and dn2i side by side ([`walk`]); names of parents
//! are kept, as many as fit ([`parents`]). No schema and no configuration is needed.
//!
//! What is done with the entries: [`export`](export()) writes them as files of LDIF, [`stream`](stream()) as one stream, [`digest`] takes their fingerprints, [`pick`] gives
//! those of a few names.

mod base;
mod by_dn;
mod descriptions;
mod digest;
mod entry;
mod export;
mod held_back;
mod nodes;
mod parents;
mod ranges;
mod shard;
mod stream;
mod tables;
#[cfg(test)]
mod tests;
mod walk;
mod workers;

use std::path::Path;

pub use by_dn::pick;
pub use digest::digest;
pub use export::{Exported, ShardTarget, export};
pub use ldif::{Code, Error, Result};
pub use shard::Finished;
pub use stream::stream;

/// What is read.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The data file.
    pub path: &'a Path,
    /// The transaction of which somebody holds a reader's slot: the newest snapshot is read, whatever is written
    /// meanwhile. `None`: nobody writes.
    pub txn: Option<u64>,
    /// The entry that with all below it is wanted; `None` is everything.
    pub base: Option<&'a str>,
    /// Workers.
    pub jobs: usize,
}

/// The reader's error as ours.
#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn reading(error: lmdbfile::Error) -> Error {
    let code = match error.kind {
        lmdbfile::ErrorKind::Io => Code::Io,
        _ => Code::Damaged,
    };
    Error::new(code, error.to_string())
}

fn damaged(message: impl Into<String>) -> Error {
    Error::new(Code::Damaged, message)
}
