//! Going through all records of an input, with every error told where it happened.

use std::path::Path;

use common::InFile;

use crate::blocks::{Blocks, MAX_RECORD};
use crate::records::Records;
use crate::{Code, Counters, Error, Input, Record, Result};

/// Calls `visit` with each record in order, counts, and stops at the first error.
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
                if record.last { cut_short(error, counters) } else { error }
            })?;
            entries += 1;
        }
        bytes += block.bytes.len() as u64;
        counters.add(entries, block.bytes.len() as u64);
    }
}

/// Syntax that is broken in the last record of a file whose last line has no end either: it was cut.
fn cut_short(error: Error, counters: &Counters) -> Error {
    let open_end = error.path.as_ref().is_some_and(|path| counters.open_ends().contains(path));
    let code = if open_end && error.code == Code::Syntax { Code::Truncated } else { error.code };
    Error { code, ..error }
}

/// An error met in `record`, told with its place.
pub fn locate(error: Error, record: &Record<'_>, path: Option<&Path>) -> Error {
    if matches!(error.code, Code::Io | Code::NoSpace | Code::Pipe | Code::Cancelled) {
        return error;
    }
    let error =
        if ends_broken(&error, record) { Error { code: Code::Truncated, ..error } } else { error };
    let dn = record.entry().map(|entry| entry.dn).ok();
    error.in_file(path).at(record.line).of_entry(dn.as_deref())
}

/// The very last line is an attribute line, and its base64 is what is wrong: the input was cut there.
fn ends_broken(error: &Error, record: &Record<'_>) -> bool {
    let last_line = || record.fields().last()?.ok().map(|field| field.line);
    error.code == Code::Syntax && record.last && error.line == last_line()
}
