//! Visits all records of an input, and adds their position to errors.

use std::path::Path;

use common::InFile;

use crate::blocks::{Blocks, MAX_RECORD};
use crate::records::Records;
use crate::{Code, Counters, Error, Field, Input, Record, Result, tail};

/// Calls `visit` with each record in order, updates the counters, and stops at the first error.
/// Returns the number of uncompressed bytes read.
pub fn each_record(
    input: Input<'_>,
    counters: &Counters,
    mut visit: impl FnMut(&Record<'_>) -> Result<()>,
) -> Result<u64> {
    let path = input.path.clone();
    let block_size = input.block_size;
    let mut blocks = Blocks::with_sizes(input, block_size, MAX_RECORD);
    let mut bytes = 0;
    loop {
        counters.check()?;
        let Some(block) = blocks.next_block().in_file(path.as_deref())? else {
            return Ok(bytes);
        };
        let mut entries = 0;
        for record in Records::new(&block) {
            let record = record.in_file(path.as_deref())?;
            visit(&record).map_err(|error| {
                let error = locate(error, &record, path.as_deref());
                if record.last { cut_short(error, &record, counters) } else { error }
            })?;
            entries += 1;
        }
        bytes += block.bytes.len() as u64;
        counters.add(entries, block.bytes.len() as u64);
    }
}

/// Turns a syntax error in the last record into `Truncated` if the last line of the file has no line end.
fn cut_short(error: Error, record: &Record<'_>, counters: &Counters) -> Error {
    let open_end = error.path.as_ref().is_some_and(|path| counters.open_ends().contains(path));
    truncated(error, record, open_end)
}

/// Adds the position of `record` to an error.
pub fn locate(error: Error, record: &Record<'_>, path: Option<&Path>) -> Error {
    if matches!(error.code, Code::Io | Code::NoSpace | Code::Pipe | Code::Cancelled) {
        return error;
    }
    let dn = record.entry().map(|entry| entry.dn).ok();
    truncated(error, record, false).in_file(path).at(record.line).of_entry(dn.as_deref())
}

/// Turns an error in the last line into `Truncated` if the input was truncated there.
fn truncated(error: Error, record: &Record<'_>, open_end: bool) -> Error {
    let line_of = |field: Result<Field<'_>>| field.map_or_else(|error| error.line, |field| Some(field.line));
    let in_last_line = || error.line == record.fields().last().and_then(line_of);
    let cut = error.code == Code::Syntax && tail::is_cut(record, open_end) && in_last_line();
    if cut { Error { code: Code::Truncated, ..error } } else { error }
}
