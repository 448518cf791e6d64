//! The rows of all files (`row.rs`), streamed as often as one likes: they are never all in memory.

use std::path::{Path, PathBuf};

use common::{Counters, Result};
use ldif::Input;
use ldif::walk::each_record;

use super::list::List;
use crate::fingerprint::Fingerprinter;
use crate::join::context_csn;
use crate::row::EntryRecord;

pub(super) struct EntryRecords {
    sources: Vec<Source>,
}

/// Where a file's rows are.
enum Source {
    List(List),
    /// Made of its records, for it came without.
    Made(Vec<EntryRecord>),
}

impl EntryRecords {
    pub(super) fn of<'a>(
        paths: impl Iterator<Item = &'a PathBuf>,
        counters: &Counters,
    ) -> Result<Self> {
        let sources = paths.map(|path| Source::of(path, counters)).collect::<Result<_>>()?;
        Ok(Self { sources })
    }

    /// In each file.
    pub(super) fn counts(&self) -> impl Iterator<Item = usize> {
        self.sources.iter().map(|source| match source {
            Source::List(list) => list.rows,
            Source::Made(rows) => rows.len(),
        })
    }

    /// Every row in its order, with the number of its file and its own. `counted`: as entry and bytes too.
    pub(super) fn each(
        &self,
        counters: &Counters,
        counted: bool,
        mut see: impl FnMut(usize, usize, &EntryRecord),
    ) -> Result<()> {
        let mut at = 0;
        for (file, source) in self.sources.iter().enumerate() {
            let each = |row: &EntryRecord| {
                see(file, at, row);
                at += 1;
            };
            match source {
                Source::List(list) => list.each(counters, counted, each)?,
                Source::Made(rows) => rows.iter().for_each(each),
            }
        }
        Ok(())
    }
}

impl Source {
    fn of(path: &Path, counters: &Counters) -> Result<Self> {
        if let Some(list) = List::beside(path)? {
            return Ok(Self::List(list));
        }
        let (mut rows, mut printer) = (Vec::new(), Fingerprinter::new(context_csn()));
        each_record(Input::from_path(path, counters)?, counters, |record| {
            rows.push(EntryRecord::of(record, &mut printer)?);
            Ok(())
        })?;
        Ok(Self::Made(rows))
    }
}
