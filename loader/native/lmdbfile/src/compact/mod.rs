//! Compacting copy of a snapshot: in the copy, the pages of each tree are contiguous, branches are full, and no pages
//! are free.
//!
//! Leaves keep their bytes, except for page numbers. Several threads read and check leaves ahead, the calling thread
//! numbers the leaves, and the thread of the file writes them.

mod branches;
mod copier;
mod pages;
mod sub_trees;

use std::path::Path;

use copier::Copier;
use disk::PieceWriter;
use workers::{Pending, Pool};

use crate::{Error, ErrorKind, FileWriter, Options, Reader, Result, Summary, Table};

/// Number of threads that read and check pages ahead: one checks pages while the others wait for the disk.
const THREADS: usize = 3;

/// Called with the number of bytes copied since the last call. Returns false to cancel the copy.
pub type ProgressCallback<'w> = &'w (dyn Fn(u64) -> bool + Sync);

impl Reader {
    /// Copies the snapshot to the new file `target`. The transaction number stays the same, so that LMDB continues with
    /// greater numbers. The map size stays the same unless the file is larger.
    ///
    /// Checks the whole structure as [`Reader::walk`] does, except for the table of free pages, which is not copied.
    pub fn compact(&self, target: &Path, watch: ProgressCallback<'_>) -> Result<Summary> {
        self.copied(FileWriter::create(target, &self.options())?, watch, FileWriter::seal)
    }

    /// Sends all pages of a copy to `pieces` except the meta pages, which are complete only at the end. Returns those.
    pub fn compact_in_pieces(&self, pieces: PieceWriter, watch: ProgressCallback<'_>) -> Result<Vec<u8>> {
        self.copied(FileWriter::in_pieces(pieces, &self.options())?, watch, FileWriter::end)
    }

    fn copied<T>(
        &self,
        file: FileWriter,
        watch: ProgressCallback<'_>,
        end: impl FnOnce(FileWriter, Table) -> Result<T>,
    ) -> Result<T> {
        let (pages, file) = (&*self.store.source, file.of_transaction(self.meta.txn));
        std::thread::scope(|scope| {
            let ahead = Pool::start(scope, ("ahead", THREADS), pages)?;
            let mut copier = Copier::new(self, pages, &ahead, file, watch);
            let main = copier.main(self.meta.main)?;
            end(copier.file, main)
        })
    }

    fn options(&self) -> Options {
        let layout = self.layout();
        // LMDB ignores a map size that is smaller than the file, but `FileWriter` does not.
        layout.options(self.map_size().max(self.pages() * layout.page_size() as u64))
    }
}

/// Waits for the result of a reading thread. Returns an error if the thread has panicked.
fn wait<T>(pending: Pending<Result<T>>) -> Result<T> {
    pending.wait().unwrap_or_else(|| Err(cancelled()))
}

pub(crate) fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "cancelled")
}
