//! Arranges the shards of an export into files that slapadd can load one after the other.
//!
//! There are two passes: [`plan`] decides about every entry from hashes alone, and [`pieces`] writes the files. Entries
//! with children come first, sorted by depth, in `0000-interior.ldif`; the leaves of shard n go to `000n.ldif`. Most
//! files of a large export have only leaves that stay where they are; such files are not even read.

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
    /// Entries omitted because a newer entry has the same entryUUID or DN.
    pub duplicates: u64,
    /// Entries omitted by `drop_orphans` because an ancestor is missing.
    pub dropped: u64,
    /// Checksum of the entries in all written files, as of a tree digest that ignores no attribute.
    pub checksum: String,
    /// The written files in loading order, each with its totals.
    pub files: Vec<(String, Totals)>,
    /// Files linked unchanged from the input: the new name, and the name in the input.
    pub taken: Vec<(String, String)>,
    /// The missing parents, each with the first child that refers to it.
    pub orphans: Vec<Orphan>,
    /// entryUUIDs that occurred with several DNs; one entry of each was kept. A UUID may be listed repeatedly.
    pub renamed: Vec<String>,
}

/// An entry whose parent is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    pub parent: String,
    pub dn: String,
    /// The entry's entryUUID, or empty.
    pub uuid: String,
}

impl Orphan {
    fn of(record: &Record<'_>) -> Result<Self> {
        let dn = record.entry()?.dn;
        let (parent, uuid) = (text(parent_text(&dn)), uuid(record)?);
        Ok(Self { parent, dn: text(&dn), uuid })
    }
}

/// Returns the entryUUID of a record, or an empty string.
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
pub struct Task {
    /// Shards from a parallel read. Of two entries with the same DN or entryUUID, the newer one has the greater CSN.
    pub paths: Vec<PathBuf>,
    /// Shards that were read after `paths`, in this order: an entry in a later shard is newer.
    pub again: Vec<PathBuf>,
    pub root: String,
    /// Values of contextCSN for the root entry; all other values are removed.
    pub context_csns: Vec<String>,
    pub compress: bool,
    /// Whether to omit entries without a parent, instead of only reporting the parent.
    pub drop_orphans: bool,
    /// Whether to report missing parents. A part of a tree may have as many missing parents as entries.
    pub name_orphans: bool,
}

/// Arranges shards in `out_dir`, which must be empty, and syncs the files. The same input gives identical files.
///
/// A shard with a row file is linked unchanged if all its records stay where they are. The files in `paths` are kept.
pub fn arrange(task: &Task, out_dir: &Path, counters: &Counters) -> Result<Arrangement> {
    expect_empty(out_dir)?;
    let stamp = RootStamp::new(&task.root, &task.context_csns);
    let mut verdicts = plan::verdicts(task, stamp.root(), counters)?;
    let mut writer = Writer::new(Pieces::new(out_dir, task.compress), stamp);
    for (shard, path) in task.paths.iter().chain(&task.again).enumerate() {
        let (verdicts, checksum) = verdicts.next_file();
        if verdicts.is_empty() {
            continue; // the shard has no entries, and an empty file is not valid zstd
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

/// Writes the files in the second pass.
#[derive(Debug)]
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

    fn file(&mut self, path: &Path, shard: usize, verdicts: &[RowDecision], counters: &Counters) -> Result<()> {
        let changed = || Error::new(Code::Io, "the file changed while it was read");
        let mut verdicts = verdicts.iter();
        each_record(Input::from_path(path, counters)?, counters, |record| {
            self.record(record, *verdicts.next().ok_or_else(changed)?, shard)
        })?;
        self.pieces.end_shard()
    }

    /// Whether a file can be linked unchanged: it has the right format, and only leaves that stay where they are.
    fn may_take(&self, path: &Path, verdicts: &[RowDecision]) -> bool {
        row::row_file_of(path).exists() && self.pieces.fits(path) && verdicts.iter().all(|verdict| verdict.is_plain())
    }

    /// Links the whole file unchanged.
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

    /// Writes the record with the required changes to `text`, and returns its contribution to the checksum.
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
