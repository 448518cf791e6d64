//! Arranges the shards of an export into files that slapadd can load one after the other.
//!
//! There are two passes: [`plan`] decides about every entry from hashes alone, and [`pieces`] writes. Parents come
//! first, sorted by depth, in `0000-interior.ldif`; the other entries of shard n go to `000n.ldif`. Most files of a
//! large export have only leaves that stay in place, and are not even read.

mod pieces;
mod plan;
mod rows;

use std::fs;
use std::path::{Path, PathBuf};

use common::{Code, Counters, Error, InFile, Result};
use ldif::walk::each_record;
use ldif::{Input, Record};

use self::pieces::Pieces;
use self::plan::{Decision, RowDecision};
use crate::editor::Editor;
use crate::fingerprint::{Checksum, Fingerprinter, Totals};
use crate::join::{RootStamp, context_csn};
use crate::name::parent_text;
use crate::names::Names;
use crate::row;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Arrangement {
    /// Number of entries written.
    pub entries: u64,
    /// Entries left out because a newer one has their entryUUID or DN.
    pub duplicates: u64,
    /// Entries left out with `drop_orphans` because an ancestor is missing.
    pub dropped: u64,
    /// The checksum of a tree digest of all written files that ignores nothing.
    pub checksum: String,
    /// The written files in the order of loading, and the totals of each.
    pub files: Vec<(String, Totals)>,
    /// Files taken over unchanged from the input: the new name and the input's name.
    pub taken: Vec<(String, String)>,
    /// The missing parents, each with the first child that refers to it.
    pub orphans: Vec<Orphan>,
    /// entryUUIDs found under several DNs, of which one entry is kept. A UUID may be listed repeatedly.
    pub renamed: Vec<String>,
}

/// An entry without a parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    pub parent: String,
    pub dn: String,
    /// Its entryUUID, or empty.
    pub uuid: String,
}

impl Orphan {
    fn of(record: &Record<'_>) -> Result<Self> {
        let dn = record.entry()?.dn;
        let (parent, uuid) = (text(parent_text(&dn)), uuid(record)?);
        Ok(Self { parent, dn: text(&dn), uuid })
    }
}

/// Returns the entryUUID, or an empty string.
fn uuid(record: &Record<'_>) -> Result<String> {
    let mut uuid = String::new();
    for field in record.entry()?.fields {
        let field = field?;
        if field.is("entryUUID") {
            uuid = text(&field.value()?);
        }
    }
    Ok(uuid)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The input and options of an arrangement.
#[derive(Debug, Clone, Copy)]
pub struct Task<'a> {
    /// Shards from one parallel read: of two entries with the same DN or entryUUID, the greater CSN is newer.
    pub paths: &'a [PathBuf],
    /// Shards read after those, one after the other: the later one is newer.
    pub again: &'a [PathBuf],
    pub root: &'a str,
    /// The values of contextCSN for the root entry; all others are removed.
    pub context_csns: &'a [String],
    pub compress: bool,
    /// Leave out entries without a parent, instead of only reporting the parent.
    pub drop_orphans: bool,
    /// Report missing parents. A part of a tree may have as many as entries.
    pub name_orphans: bool,
}

/// Arranges shards in `out_dir`, which must be empty, and syncs the files. The same input gives the same bytes.
///
/// A file with a file of rows whose records all stay in place is linked unchanged; `paths` remain as well.
pub fn arrange(task: &Task<'_>, out_dir: &Path, counters: &Counters) -> Result<Arrangement> {
    expect_empty(out_dir)?;
    let stamp = RootStamp::new(task.root, task.context_csns);
    let mut verdicts = plan::verdicts(task, stamp.root(), counters)?;
    let mut writer = Writer::new(Pieces::new(out_dir, task.compress), stamp);
    for (shard, path) in task.paths.iter().chain(task.again).enumerate() {
        let (verdicts, checksum) = verdicts.next_file();
        if verdicts.is_empty() {
            continue; // a piece of no entries: an empty file is no shard, and no zstd either
        }
        if writer.may_take(path, verdicts) {
            writer.take(path, shard + 1, verdicts.len(), checksum)?;
        } else {
            writer.file(path, shard + 1, verdicts, counters)?;
        }
    }
    writer.finish()
}

fn expect_empty(directory: &Path) -> Result<()> {
    let check = || -> Result<()> {
        fs::create_dir_all(directory)?;
        if fs::read_dir(directory)?.next().is_none() {
            return Ok(());
        }
        Err(Error::new(Code::NotEmpty, "the output directory is not empty"))
    };
    check().in_file(Some(directory))
}

/// Writes in the second pass.
struct Writer {
    pieces: Pieces,
    stamp: RootStamp,
    editor: Editor,
    printer: Fingerprinter,
    all: Totals,
    text: Vec<u8>,
    done: Arrangement,
}

impl Writer {
    fn new(pieces: Pieces, stamp: RootStamp) -> Self {
        Self {
            pieces,
            stamp,
            editor: Editor::new(context_csn()),
            printer: Fingerprinter::new(context_csn()),
            all: Totals::default(),
            text: Vec::new(),
            done: Arrangement::default(),
        }
    }

    fn file(
        &mut self,
        path: &Path,
        shard: usize,
        verdicts: &[RowDecision],
        counters: &Counters,
    ) -> Result<()> {
        let changed = || Error::new(Code::Io, "the file changed while it was read");
        let mut verdicts = verdicts.iter();
        each_record(Input::from_path(path, counters)?, counters, |record| {
            self.record(record, *verdicts.next().ok_or_else(changed)?, shard)
        })?;
        self.pieces.end_shard()
    }

    /// Whether the file can be taken over: it is in the right format and has only leaves that stay in place.
    fn may_take(&self, path: &Path, verdicts: &[RowDecision]) -> bool {
        row::row_file_of(path).exists()
            && self.pieces.fits(path)
            && verdicts.iter().all(|verdict| verdict.is_plain())
    }

    /// Takes over the whole file unchanged.
    fn take(&mut self, path: &Path, shard: usize, rows: usize, checksum: Checksum) -> Result<()> {
        let tally = Totals { entries: rows as u64, checksum };
        self.all.join(tally);
        let name = self.pieces.take(path, shard, tally)?;
        let from = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.done.taken.push((name, from));
        Ok(())
    }

    fn record(&mut self, record: &Record<'_>, verdict: RowDecision, shard: usize) -> Result<()> {
        match verdict.fate {
            Decision::Overtaken => self.done.duplicates += 1,
            Decision::Renamed => {
                self.done.duplicates += 1;
                self.done.renamed.push(uuid(record)?);
            }
            Decision::Dropped => self.done.dropped += 1,
            Decision::Leaf | Decision::Interior => self.keep(record, verdict, shard)?,
        }
        Ok(())
    }

    fn keep(&mut self, record: &Record<'_>, verdict: RowDecision, shard: usize) -> Result<()> {
        let print = self.edit(record)?;
        self.all.add(print);
        if verdict.orphan {
            self.done.orphans.push(Orphan::of(record)?);
        }
        if verdict.fate == Decision::Interior {
            self.pieces.interior(self.printer.name().depth(), &self.text, print)
        } else {
            self.pieces.leaf(shard, &self.text, print)
        }
    }

    /// Writes the record to `text` with the required changes, and returns its contribution to the checksum.
    fn edit(&mut self, record: &Record<'_>) -> Result<u128> {
        self.editor.begin();
        let editor = &mut self.editor;
        let mut print = self.printer.print_with(record, |field, name| editor.see(field, name))?;
        let extra = self.stamp.lines_for(self.printer.name());
        self.text.clear();
        self.editor.end(record, extra, &mut self.text)?;
        if !extra.is_empty() {
            let written = Record { bytes: &self.text[..self.text.len() - 1], ..*record };
            print = Fingerprinter::new(Names::default()).print(&written)?;
        }
        Ok(print.combined())
    }

    fn finish(self) -> Result<Arrangement> {
        self.stamp.require_found()?;
        let files = self.pieces.finish()?;
        let (entries, checksum) = (self.all.entries, self.all.checksum.hex());
        Ok(Arrangement { entries, checksum, files, ..self.done })
    }
}
