//! The rows that lie beside a file (`row.rs`): what arranging must know of its records, without
//! reading them again.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use ldif::{Code, Counters, Error, Result};

use crate::row::{self, Row};

/// Rows looked at between two looks at the counters.
const LOT: usize = 4096;

pub(super) struct List {
    file: File,
    path: PathBuf,
}

impl List {
    /// `None` for a file that came without.
    pub(super) fn beside(path: &Path) -> Result<Option<Self>> {
        let path = row::beside(path);
        match File::open(&path) {
            Ok(file) => Ok(Some(Self { file, path })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::from(error).in_file(Some(&path))),
        }
    }

    /// Every row in its order, counted as entry and bytes.
    pub(super) fn each(
        mut self,
        counters: &Counters,
        mut see: impl FnMut(&Row) -> Result<()>,
    ) -> Result<()> {
        let mut lot = vec![0; LOT * row::SIZE];
        loop {
            counters.check()?;
            let rows = self.fill(&mut lot)?;
            if rows.is_empty() {
                return Ok(());
            }
            let mut bytes = 0;
            for row in rows.chunks_exact(row::SIZE).map(Row::from_bytes) {
                bytes += u64::from(row.length);
                see(&row)?;
            }
            counters.add((rows.len() / row::SIZE) as u64, bytes);
        }
    }

    fn fill<'a>(&mut self, lot: &'a mut [u8]) -> Result<&'a [u8]> {
        let mut filled = 0;
        while filled < lot.len() {
            match self.file.read(&mut lot[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Err(error) => return Err(Error::from(error).in_file(Some(&self.path))),
            }
        }
        if filled % row::SIZE == 0 {
            return Ok(&lot[..filled]);
        }
        Err(Error::new(Code::Truncated, "the list of rows is cut").in_file(Some(&self.path)))
    }
}
