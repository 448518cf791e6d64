//! One partition of an export: records from a pipe into a file of their own.

use std::path::Path;

use common::{Counters, Result};
use ldif::walk::each_record;
use ldif::{Input, Output};

use crate::editor::Editor;
use crate::fingerprint::{Checksum, Fingerprinter};
use crate::names::Names;

#[derive(Debug, PartialEq, Eq)]
pub struct Shard {
    pub entries: u64,
    /// Uncompressed bytes written.
    pub bytes: u64,
    /// That of a tree digest of the written file with nothing ignored.
    pub checksum: String,
}

/// Copies `input` to `path`, without the attributes in `drop`; on the disk when it returns.
pub fn shard(input: Input<'_>, path: &Path, drop: &Names, counters: &Counters) -> Result<Shard> {
    let mut output = Output::create(path, 0)?;
    let mut editor = Editor::new(drop.clone());
    let mut printer = Fingerprinter::new(drop.clone());
    let mut checksum = Checksum::default();
    let (mut entries, mut bytes) = (0, 0);
    let mut text = Vec::new();
    each_record(input, counters, |record| {
        editor.begin();
        checksum.add(printer.print_with(record, |field, name| editor.see(field, name))?.combined());
        text.clear();
        editor.end(record, b"", &mut text)?;
        entries += 1;
        bytes += text.len() as u64;
        output.write(&text)
    })?;
    output.finish()?;
    Ok(Shard { entries, bytes, checksum: checksum.hex() })
}
