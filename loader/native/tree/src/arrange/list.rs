//! The rows that lie beside a file (`row.rs`): what arranging must know of its records, without
//! reading them again.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use common::{Code, Counters, Error, InFile, Result};

use crate::row::{self, EntryRecord};

/// Rows looked at between two looks at the counters.
const LOT: usize = 4096;

const CUT: &str = "the list of rows is cut";

pub(super) struct List {
    path: PathBuf,
    /// In it.
    pub(super) rows: usize,
}

impl List {
    /// `None` for a file that came without.
    pub(super) fn beside(path: &Path) -> Result<Option<Self>> {
        let path = row::row_file_of(path);
        match fs::metadata(&path) {
            Ok(found) if found.len() % row::SIZE as u64 == 0 => {
                let rows = usize::try_from(found.len()).unwrap_or(usize::MAX) / row::SIZE;
                Ok(Some(Self { path, rows }))
            }
            Ok(_) => Err(Error::new(Code::Truncated, CUT).in_file(Some(&path))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::from(error).in_file(Some(&path))),
        }
    }

    /// Every row in its order. `counted`: as entry and bytes too.
    pub(super) fn each(
        &self,
        counters: &Counters,
        counted: bool,
        mut see: impl FnMut(&EntryRecord),
    ) -> Result<()> {
        let mut file = File::open(&self.path).in_file(Some(&self.path))?;
        let mut lot = vec![0; LOT.min(self.rows) * row::SIZE];
        let mut left = self.rows;
        while left > 0 {
            counters.check()?;
            let count = LOT.min(left);
            let lot = &mut lot[..count * row::SIZE];
            file.read_exact(lot).in_file(Some(&self.path))?;
            let mut bytes = 0;
            for row in lot.chunks_exact(row::SIZE).map(EntryRecord::from_bytes) {
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
