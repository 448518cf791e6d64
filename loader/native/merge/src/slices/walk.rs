//! Reads records with their locations, and finds the input record for an error of slapadd or of the merge.

use std::path::{Path, PathBuf};

use common::{Counters, InFile, Result};
use ldif::blocks::{Blocks, MAX_RECORD};
use ldif::records::Records;
use ldif::walk::locate;
use ldif::{Input, Record};
use tree::join::ContextCsnStamp;
use tree::name::ParsedDn;

use super::feed::{SliceOptions, Writer, each};
use super::key::Keys;

/// A record of the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub path: PathBuf,
    pub line: u64,
    pub dn: String,
}

/// Returns the input record whose text the slice's slapadd read at `line`.
pub fn find_line(
    slice: &SliceOptions<'_>,
    line: u64,
    stamping: Option<ContextCsnStamp>,
    counters: &Counters,
) -> Result<Option<Found>> {
    let mut writer = Writer::new(slice, stamping);
    let (mut text, mut lines, mut found) = (Vec::new(), 0, None);
    each(slice, &Counters::default(), |record, place, position| {
        counters.check()?;
        text.clear();
        writer.write(record, position, &mut text)?;
        lines += memchr::memchr_iter(b'\n', &text).count() as u64;
        if lines < line {
            return Ok(true);
        }
        found = Some((record.bytes.to_vec(), place, u64::from(position) < slice.shared));
        Ok(false)
    })?;
    let Some((bytes, place, is_shared)) = found else { return Ok(None) };
    let from = if is_shared { RecordLocation::START } else { place };
    let is_wanted = |record: &Record<'_>| Ok(!is_shared || record.bytes == bytes);
    Ok(find(slice.paths, from, 1, counters, is_wanted)?.into_iter().next())
}

/// Returns the first two records with this DN.
pub fn find_name(paths: &[PathBuf], suffixes: &[String], dn: &str, counters: &Counters) -> Result<Vec<Found>> {
    let mut keys = Keys::new(suffixes);
    let target = keys.of(dn.as_bytes());
    let (exact, mut name) = (ParsedDn::new(dn.as_bytes()), ParsedDn::default());
    let alike = find(paths, RecordLocation::START, 2, counters, |record| {
        name.set(&record.entry()?.dn);
        Ok(name.key() == exact.key())
    })?;
    if alike.len() > 1 {
        return Ok(alike);
    }
    find(paths, RecordLocation::START, 2, counters, |record| Ok(keys.of(&record.entry()?.dn) == target))
}

/// Returns the first `most` matching records from `from` on.
fn find(
    paths: &[PathBuf],
    from: RecordLocation,
    most: usize,
    counters: &Counters,
    mut is_wanted: impl FnMut(&Record<'_>) -> Result<bool>,
) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    walk(paths, from, counters, |record, place| {
        if is_wanted(record)? {
            let dn = String::from_utf8_lossy(&record.entry()?.dn).into_owned();
            found.push(Found { path: paths[place.file].clone(), line: place.line, dn });
        }
        Ok(found.len() < most)
    })?;
    Ok(found)
}

/// The location of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordLocation {
    /// Index of the file.
    pub file: usize,
    /// Offset of the first byte, uncompressed.
    pub offset: u64,
    /// Number of the first line, from 1.
    pub line: u64,
}

impl RecordLocation {
    pub const START: Self = Self { file: 0, offset: 0, line: 1 };
}

/// Calls `visit` with every record of `paths` from `from` on, until `visit` returns false. Counts bytes instead of
/// entries, because entries may be read more than once.
pub fn walk(
    paths: &[PathBuf],
    from: RecordLocation,
    counters: &Counters,
    mut visit: impl FnMut(&Record<'_>, RecordLocation) -> Result<bool>,
) -> Result<()> {
    for (file, path) in paths.iter().enumerate().skip(from.file) {
        let start = if file == from.file { from } else { RecordLocation { file, ..RecordLocation::START } };
        if !walk_file(path, start, counters, &mut visit)? {
            break;
        }
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
