//! Going through records with the place of each, from any place on.

use std::path::{Path, PathBuf};

use common::{Counters, InFile, Result};
use ldif::blocks::{Blocks, MAX_RECORD};
use ldif::records::Records;
use ldif::walk::locate;
use ldif::{Input, Record};

/// Where a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordLocation {
    /// Index of the file.
    pub file: usize,
    /// Of its first byte, uncompressed.
    pub offset: u64,
    /// Of its first line, from 1.
    pub line: u64,
}

impl RecordLocation {
    pub const START: Self = Self { file: 0, offset: 0, line: 1 };
}

/// Shows every record of `paths` from `from` on, until `visit` answers false. Counts bytes, for entries may be
/// looked at more than once.
pub fn walk(
    paths: &[PathBuf],
    from: RecordLocation,
    counters: &Counters,
    mut visit: impl FnMut(&Record<'_>, RecordLocation) -> Result<bool>,
) -> Result<()> {
    let mut start = from;
    for (file, path) in paths.iter().enumerate().skip(from.file) {
        if !walk_file(path, RecordLocation { file, ..start }, counters, &mut visit)? {
            return Ok(());
        }
        start = RecordLocation::START;
    }
    Ok(())
}

fn walk_file(
    path: &Path,
    start: RecordLocation,
    counters: &Counters,
    visit: &mut impl FnMut(&Record<'_>, RecordLocation) -> Result<bool>,
) -> Result<bool> {
    let input = Input::from_path_at(path, start.offset, counters)?;
    let block_size = input.block_size;
    let mut blocks = Blocks::with_sizes(input, block_size, MAX_RECORD);
    let mut offset = start.offset;
    while let Some(block) = blocks.next_block().in_file(Some(path))? {
        counters.check()?;
        let block_start = block.bytes.as_ptr() as usize;
        for record in Records::new(&block) {
            let mut record = record.in_file(Some(path))?;
            record.line += start.line - 1;
            let at = (record.bytes.as_ptr() as usize - block_start) as u64;
            let place = RecordLocation { file: start.file, offset: offset + at, line: record.line };
            let more = visit(&record, place).map_err(|error| locate(error, &record, Some(path)))?;
            if !more {
                return Ok(false);
            }
        }
        offset += block.bytes.len() as u64;
        counters.add(0, block.bytes.len() as u64);
    }
    Ok(true)
}
