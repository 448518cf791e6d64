//! Reads the rows of all files (`row.rs`) repeatedly as streams, because they may not fit into memory.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use common::{Code, Counters, Error, InFile, Result};
use ldif::Input;
use ldif::walk::each_record;

use crate::fingerprint::Fingerprinter;
use crate::join::context_csn;
use crate::row::{self, EntryRecord};

#[derive(Debug)]
pub(super) struct EntryRecords {
    sources: Vec<Source>,
}

/// The source of a file's rows.
#[derive(Debug)]
enum Source {
    List(List),
    /// Rows computed from the records, because the file has no list of rows.
    Computed(Vec<EntryRecord>),
}

impl EntryRecords {
    pub(super) fn of<'a>(paths: impl Iterator<Item = &'a PathBuf>, counters: &Counters) -> Result<Self> {
        let sources = paths.map(|path| Source::of(path, counters)).collect::<Result<_>>()?;
        Ok(Self { sources })
    }

    /// Returns the number of rows in each file.
    pub(super) fn counts(&self) -> impl Iterator<Item = usize> {
        self.sources.iter().map(|source| match source {
            Source::List(list) => list.rows,
            Source::Computed(rows) => rows.len(),
        })
    }

    /// Calls `see` with each row, its file and its number. If `counted`, entries and bytes are added to the counters.
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
                Source::Computed(rows) => rows.iter().for_each(each),
            }
        }
        Ok(())
    }
}

impl Source {
    fn of(path: &Path, counters: &Counters) -> Result<Self> {
        if let Some(list) = List::of_file(path)? {
            return Ok(Self::List(list));
        }
        let (mut rows, mut printer) = (Vec::new(), Fingerprinter::new(context_csn()));
        each_record(Input::from_path(path, counters)?, counters, |record| {
            rows.push(EntryRecord::of(record, &mut printer)?);
            Ok(())
        })?;
        Ok(Self::Computed(rows))
    }
}

/// Number of rows between two updates of the counters.
const BATCH: usize = 4096;

const TRUNCATED: &str = "the list of rows is truncated";

#[derive(Debug)]
struct List {
    path: PathBuf,
    /// Number of rows in the list.
    rows: usize,
}

impl List {
    /// Returns `None` if the file has no list of rows.
    fn of_file(path: &Path) -> Result<Option<Self>> {
        let path = row::row_file_of(path);
        match fs::metadata(&path) {
            Ok(metadata) if metadata.len() % row::SIZE as u64 == 0 => {
                let rows = usize::try_from(metadata.len()).unwrap_or(usize::MAX) / row::SIZE;
                Ok(Some(Self { path, rows }))
            }
            Ok(_) => Err(Error::new(Code::Truncated, TRUNCATED).in_file(Some(&path))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::from(error).in_file(Some(&path))),
        }
    }

    /// Calls `see` with each row. If `counted`, entries and bytes are added to the counters.
    fn each(&self, counters: &Counters, counted: bool, mut see: impl FnMut(&EntryRecord)) -> Result<()> {
        let mut file = File::open(&self.path).in_file(Some(&self.path))?;
        let mut batch = vec![0; BATCH.min(self.rows) * row::SIZE];
        let mut left = self.rows;
        while left > 0 {
            counters.check()?;
            let count = BATCH.min(left);
            let batch = &mut batch[..count * row::SIZE];
            file.read_exact(batch).in_file(Some(&self.path))?;
            let mut bytes = 0;
            for row in batch.chunks_exact(row::SIZE).map(EntryRecord::from_bytes) {
                bytes += u64::from(row.length);
                see(&row);
            }
            if counted {
                counters.add(count as u64, bytes);
            }
            left -= count;
        }
        Ok(())
    }
}
