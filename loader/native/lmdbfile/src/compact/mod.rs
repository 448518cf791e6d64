//! Compacting copy of a snapshot: the pages of each tree are contiguous, branches are full, no pages are free.
//!
//! The leaves keep their bytes, except for page numbers. Several threads read and check leaves ahead; the calling
//! thread numbers them, and a writer thread of the file writes them.

mod branches;
mod copier;
mod pages;
mod sub_trees;

use std::path::Path;

use copier::Copier;
use disk::PieceWriter;
use workers::{Pending, Pool};

use crate::Error;
use crate::{ErrorKind, FileWriter, Options, Reader, Result, Summary, Table};

/// Threads that read and check pages ahead: one checks while the others wait for the disk.
const THREADS: usize = 3;

/// Called with the number of bytes copied since the last call; returning `false` cancels the copy.
pub type ProgressCallback<'w> = &'w (dyn Fn(u64) -> bool + Sync);

impl Reader {
    /// Writes the snapshot's tables to the new file `target`. Map size and transaction number stay the same, so that
    /// LMDB continues with greater numbers.
    ///
    /// The copy checks the whole structure as [`Reader::walk`] does, except for the table of free pages, which it does
    /// not need.
    pub fn compact(&self, target: &Path, watch: ProgressCallback<'_>) -> Result<Summary> {
        self.copied(FileWriter::create(target, &self.options())?, watch, FileWriter::seal)
    }

    /// Compacts into `pieces`: all pages except the two meta pages, which are known last and are returned.
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
            end(copier.into_file(), main)
        })
    }

    fn options(&self) -> Options {
        let layout = self.layout();
        // LMDB treats a map size that is smaller than the file as large enough, so the copy raises it.
        layout.options(self.map_size().max(self.pages() * layout.page_size() as u64))
    }
}

/// Waits for a result of a reading thread, which may have panicked without an error.
fn wait<T>(pending: Pending<Result<T>>) -> Result<T> {
    pending.wait().unwrap_or_else(|| Err(cancelled()))
}

pub(crate) fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "cancelled")
}
