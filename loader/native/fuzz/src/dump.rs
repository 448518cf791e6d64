//! Exports damaged databases.

use std::path::Path;

use dump::{Exported, LdifFormat, Result, ShardTarget, Source};
use ldif::Counters;
use lmdbfile::Format;
use tree::{Digest, Names};

use crate::lmdb_reader::{PIECE, damage};

/// The first byte chooses a format, the other bytes damage a small sound database. It must be exported or refused. The
/// records and the digest of an export must equal the reported ones, and the digest must equal the digest of the pages.
///
/// # Panics
/// If the sound database is refused, or any of this does not hold.
pub fn run(data: &[u8]) {
    let Some(([format], pieces)) = crate::switches(data) else { return };
    let format = if format & 1 == 0 { Format::V1 } else { Format::V3 };
    let mut bytes = crate::builder::small_file(format);
    pieces.chunks_exact(PIECE).for_each(|piece| damage(&mut bytes, piece));
    let directory = tempfile::tempdir().expect("a directory");
    let (path, out) = (directory.path().join("data.mdb"), directory.path().join("out"));
    std::fs::write(&path, bytes).expect("a file");
    std::fs::create_dir(&out).expect("a directory");
    let source = Source { path: path.clone(), txn: None, base: None, after: 0, jobs: 2 };
    let place = ShardTarget { directory: out.clone(), format: LdifFormat::default() };
    match dump::export(&source, &place, &Counters::default()) {
        Ok(report) => check(&source, &report, &out),
        Err(error) => assert!(pieces.len() >= PIECE && !error.message.is_empty(), "{error}"),
    }
    let _ = dump::pick(&source, &["cn=x,dc=example,dc=com".into()], &Counters::default());
}

fn check(source: &Source, report: &Exported, out: &Path) {
    let (mut files, mut pages) = (Digest::new(Names::default()), Digest::new(Names::default()));
    let read = report
        .files
        .iter()
        .try_for_each(|file| -> Result<()> { files.add_path(&out.join(&file.name), &Counters::default()) });
    let sum = |all: u64, file: &dump::Finished| all + file.tally.entries;
    assert_eq!(report.files.iter().fold(0, sum), report.entries);
    let digested = dump::digest(source, &mut pages, &Counters::default());
    digested.expect("an exported database has a digest");
    assert_eq!((pages.entries(), pages.checksum()), (report.entries, report.checksum.clone()));
    // Reading may fail: a damaged RDN may exceed the size of a record, or look like a `changetype` line.
    if read.is_ok() {
        assert_eq!((files.entries(), files.checksum()), (report.entries, report.checksum.clone()));
    }
}
