//! Records of a stream sorted by depth: each after its parent, if that is among them.

use std::path::Path;

use common::{Counters, Result};
use extsort::RecordSorter;
use ldif::walk::each_record;
use ldif::{Input, Output};

use crate::name::rdns;

/// The memory limit in bytes; what exceeds it goes to an unlinked temporary file.
const MEMORY: usize = 32 << 20;

/// Copies `input` to `path`; records of the same depth stay in their order. `scratch` is the directory of the temporary
/// file.
pub fn parents_first(
    input: Input<'_>,
    path: &Path,
    scratch: &Path,
    counters: &Counters,
) -> Result<()> {
    let mut sorter = RecordSorter::new(MEMORY, 1, scratch, counters.flag());
    let mut number = 0;
    each_record(input, counters, |record| {
        let depth = rdns(&record.entry()?.dn).count() as u128;
        number += 1;
        sorter.push(depth << 64 | number, record.bytes)
    })?;
    let mut records = sorter.finish()?;
    let mut output = Output::create(path, 0)?;
    while let Some((_, record)) = records.next()? {
        output.write(record)?;
        output.write(b"\n")?;
    }
    output.finish()?;
    Ok(())
}
