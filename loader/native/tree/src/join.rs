//! Rewrites streams of LDIF records: joins files, copies a partition of an export, and sorts records by depth.

use std::io::Write;
use std::path::Path;

use common::{Code, Counters, Error, Result};
use extsort::RecordSorter;
use ldif::walk::each_record;
use ldif::{Input, Output, Record, write};

use crate::claim::Claim;
use crate::editor::Editor;
use crate::fingerprint::{Checksum, Fingerprinter};
use crate::name::{ParsedDn, rdns};
use crate::names::{Aliases, Names};

/// Number of bytes per write to the sink, such as slapadd's pipe.
const CHUNK: usize = 256 * 1024;

/// The values of contextCSN for the entry `root`; all other values are removed.
#[derive(Debug)]
pub struct RootStamp {
    root: ParsedDn,
    lines: Vec<u8>,
    met: bool,
}

impl RootStamp {
    pub fn new(root: &str, context_csns: &[impl AsRef<str>]) -> Self {
        let mut lines = Vec::new();
        for csn in context_csns {
            write::line(&mut lines, b"contextCSN", csn.as_ref().as_bytes());
        }
        Self { root: ParsedDn::new(root.as_bytes()), lines, met: false }
    }

    pub fn root(&self) -> &ParsedDn {
        &self.root
    }

    /// Returns the lines to add to an entry; empty unless the entry is the root.
    pub fn lines_for(&mut self, name: &ParsedDn) -> &[u8] {
        if name.key() != self.root.key() {
            return b"";
        }
        self.met = true;
        &self.lines
    }

    /// Returns an error if the root did not occur, because its contextCSN would be missing.
    pub fn require_found(&self) -> Result<()> {
        if self.met || self.lines.is_empty() {
            return Ok(());
        }
        let root = String::from_utf8_lossy(self.root.key()).into_owned();
        Err(Error::new(Code::RootMissing, format!("the input has no entry {root} to bear contextCSN")))
    }
}

pub fn context_csn() -> Names {
    Names::new(["contextCSN"])
}

/// Makes a stream consistent with the contextCSN that it claims: the root gets that value, and no entry is newer.
#[derive(Debug)]
pub struct ContextCsnStamp {
    root: RootStamp,
    claim: Claim,
    newer: Editor,
    name: ParsedDn,
    lines: Vec<u8>,
}

impl ContextCsnStamp {
    pub fn new(root: &str, context_csns: &[impl AsRef<str>]) -> Self {
        Self {
            root: RootStamp::new(root, context_csns),
            claim: Claim::new(context_csns),
            newer: Editor::new(Names::new(["contextCSN", "entryCSN"])),
            name: ParsedDn::default(),
            lines: Vec::new(),
        }
    }

    /// Also groups values that are under different names of one attribute type.
    #[must_use]
    pub fn with_aliases(self, aliases: Aliases) -> Self {
        Self { newer: self.newer.with_aliases(aliases), ..self }
    }

    /// Returns the CSN that must replace `entry_csn`, if `entry_csn` is newer than the claim.
    pub fn held_back(&self, entry_csn: &[u8]) -> Option<&[u8]> {
        self.claim.older_csn(crate::csn::pack(entry_csn))
    }

    /// Whether the root entry has occurred.
    pub fn found(&self) -> bool {
        self.root.met
    }

    /// Appends the edited record and a blank line; `plain` copies the records that need no change.
    pub fn copy(&mut self, plain: &mut Editor, record: &Record<'_>, out: &mut Vec<u8>) -> Result<()> {
        self.name.set(&record.entry()?.dn);
        let extra = self.root.lines_for(&self.name);
        let Some(older) = self.claim.held_back(record)? else {
            return plain.copy(record, extra, out);
        };
        self.lines.clear();
        self.lines.extend_from_slice(extra);
        self.lines.extend_from_slice(older);
        self.newer.copy(record, &self.lines, out)
    }
}

/// Writes the records of all `paths` in order, each followed by a blank line, and returns their number. All values of
/// an attribute are grouped, including those under its `aliases`.
pub fn join(
    paths: &[impl AsRef<Path>],
    sink: &mut impl Write,
    stamping: Option<ContextCsnStamp>,
    aliases: &Aliases,
    counters: &Counters,
) -> Result<u64> {
    let drop = stamping.as_ref().map(|_| context_csn()).unwrap_or_default();
    let mut editor = Editor::new(drop).with_aliases(aliases.clone());
    let mut stamping = stamping.map(|stamping| stamping.with_aliases(aliases.clone()));
    let mut text = Vec::with_capacity(2 * CHUNK);
    let mut entries = 0;
    for path in paths {
        each_record(Input::from_path(path.as_ref(), counters)?, counters, |record| {
            match &mut stamping {
                None => editor.copy(record, b"", &mut text)?,
                Some(stamping) => stamping.copy(&mut editor, record, &mut text)?,
            }
            entries += 1;
            if text.len() < CHUNK { Ok(()) } else { send(&mut text, sink) }
        })?;
    }
    send(&mut text, sink)?;
    stamping.map_or(Ok(()), |stamping| stamping.root.require_found())?;
    Ok(entries)
}

fn send(text: &mut Vec<u8>, sink: &mut impl Write) -> Result<()> {
    let sent = sink.write_all(text);
    text.clear();
    Ok(sent?)
}

#[derive(Debug, PartialEq, Eq)]
pub struct Shard {
    pub entries: u64,
    /// Number of uncompressed bytes written.
    pub bytes: u64,
    /// Checksum of the entries in the written file, as of a tree digest that ignores no attribute.
    pub checksum: String,
}

/// Copies `input` to `path` without the attributes in `drop`, and syncs the file.
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

/// Memory limit in bytes; records beyond it go to an unlinked temporary file.
const MEMORY: usize = 32 << 20;

/// Copies `input` to `path`, sorted by depth; records of the same depth keep their order. `scratch` is the directory of
/// the temporary file.
pub fn parents_first(input: Input<'_>, path: &Path, scratch: &Path, counters: &Counters) -> Result<()> {
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
