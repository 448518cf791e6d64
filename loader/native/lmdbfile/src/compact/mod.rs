//! A snapshot written again: each tree's pages one after the other, full branches, no free pages.
//!
//! What is on the leaves stays byte for byte, but for the numbers that point to other pages. Leaves are read and
//! checked by threads ahead of the one that numbers them, and a thread of the file's own writes what it has numbered.

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

/// Threads that read and check pages before they are wanted: one checks while the others wait for the disk.
const THREADS: usize = 3;

/// Told how many bytes were copied since the last call; `false` gives up.
pub type ProgressCallback<'w> = &'w (dyn Fn(u64) -> bool + Sync);

impl Reader {
    /// Writes the snapshot's tables to the new file `target`, with the same map size and
    /// transaction, so that an LMDB that opens it goes on with greater ones.
    ///
    /// The whole structure is checked on the way, as [`Reader::walk`] does, but for the table of free pages, which a copy
    /// has no use for.
    pub fn compact(&self, target: &Path, watch: ProgressCallback<'_>) -> Result<Summary> {
        self.copied(FileWriter::create(target, &self.options())?, watch, FileWriter::seal)
    }

    /// The same to whoever takes the pieces, all pages but both meta pages, which are known last and returned.
    pub fn compact_in_pieces(
        &self,
        pieces: PieceWriter,
        watch: ProgressCallback<'_>,
    ) -> Result<Vec<u8>> {
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
        // LMDB itself reads a file whose map size is too small as if it were large enough.
        layout.options(self.map_size().max(self.pages() * layout.page_size() as u64))
    }
}

/// What was asked for. A thread that is gone had no chance to say why.
fn wait<T>(pending: Pending<Result<T>>) -> Result<T> {
    pending.wait().unwrap_or_else(|| Err(cancelled()))
}

pub(crate) fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "cancelled")
}
