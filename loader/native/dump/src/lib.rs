//! Reads the entries of a back-mdb database from the pages of one LMDB snapshot, with several threads.
//!
//! The table id2e contains the attributes of an entry, dn2i its RDN and its parent's ID, and id2v the values of
//! attributes that exceed the `multival` threshold. Each worker takes ranges of entry IDs, and reads id2e and dn2i in
//! step ([`walk`]). The DNs of parents are cached ([`parents`]). Neither a schema nor slapd's configuration is needed.
//!
//! [`export`](export()) writes the entries to LDIF files, [`stream`](stream()) writes them to one stream, [`digest`]
//! adds their fingerprints to a digest, [`sample`](sample()) reads some of them, and [`pick`] returns the entries with
//! given DNs. [`Contents`] reads single facts without workers.

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

use std::path::PathBuf;

pub use base::pick;
pub use common::{Code, Error, Result};
pub use contents::Contents;
pub use digest::digest;
pub use export::{Exported, Finished, LdifFormat, ShardTarget, export, stream};
pub use sample::{Sample, SampleSize, sample};

/// The database to read, and the subtree to read from it.
#[derive(Debug, Clone)]
pub struct Source {
    /// The data file.
    pub path: PathBuf,
    /// The transaction for which the caller has a reader slot, so that LMDB does not reuse the pages of its snapshot
    /// during the read. `None` means that no process writes to the database.
    pub txn: Option<u64>,
    /// DN of the subtree to read; `None` reads all entries.
    pub base: Option<String>,
    /// Only entries with a greater ID are read; 0 reads all entries.
    pub after: u64,
    /// Number of worker threads.
    pub jobs: usize,
}

impl Source {
    /// Returns the ID of the base, or 0 if there is no base.
    fn base_id(&self, tables: &tables::Tables<'_>) -> Result<u64> {
        self.base.as_deref().map_or(Ok(0), |dn| Ok(base::find(tables, dn)?.id))
    }
}
