//! Reads the entries of a back-mdb database from the pages of one LMDB snapshot, with several threads.
//!
//! id2e holds the attributes of an entry, dn2i its RDN and the ID of its parent, and id2v the values of attributes that
//! exceed the `multival` threshold. Each worker takes ranges of entry IDs and reads id2e and dn2i in
//! parallel ([`walk`]). The DNs of parents are cached ([`parents`]). Neither the schema nor slapd's configuration is
//! needed.
//!
//! [`export`](export()) writes the entries to LDIF files, [`stream`](stream()) writes them to one stream, [`digest`]
//! adds their fingerprints to a digest, [`sample`](sample()) reads a few of them, and [`pick`] returns the entries of
//! the given DNs. [`Contents`] reads single facts, for which no worker is needed.

mod base;
mod contents;
mod digest;
mod entry;
mod export;
mod parents;
mod sample;
mod tables;
#[cfg(test)]
mod tests;
mod walk;

use std::path::Path;

pub use base::pick;
pub use common::{Code, Error, Result};
pub use contents::Contents;
pub use digest::digest;
pub use export::{Exported, Finished, LdifFormat, ShardTarget, export, stream};
pub use sample::{Sample, SampleSize, sample};

/// The database to read, and the part of it that is wanted.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The data file.
    pub path: &'a Path,
    /// The transaction for which the caller holds a slot in LMDB's reader table, so that its pages are not reused while
    /// they are read. `None` means that no process writes to the database.
    pub txn: Option<u64>,
    /// The DN of the subtree to read; `None` reads all entries.
    pub base: Option<&'a str>,
    /// The number of worker threads.
    pub jobs: usize,
}

impl Source<'_> {
    /// The ID of the base; 0 without one.
    fn base_id(&self, tables: &tables::Tables<'_>) -> Result<u64> {
        self.base.map_or(Ok(0), |dn| Ok(base::find(tables, dn)?.id))
    }
}
