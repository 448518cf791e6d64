//! Feeds the slapadd of a slice: the shared entries, then the slice's own entries.

use std::io::Write;
use std::mem;
use std::path::{Path, PathBuf};

use backmdb::operational::{csn_at, csn_pattern, uuid};
use common::{Counters, Result};
use ldif::{Record, write};
use rustc_hash::FxHashSet;
use tree::editor::Editor;
use tree::fingerprint::hash_description;
use tree::join::{ContextCsnStamp, context_csn};
use tree::names::Aliases;
use values::uuid::spelled;

use super::key::Keys;
use super::plan::SliceStart;
use super::walk::{RecordLocation, walk};

/// Text is written to the pipe when it has at least this many bytes.
const CHUNK: usize = 64 * 1024;

/// The input of one slice's slapadd.
pub struct SliceOptions<'a> {
    pub paths: &'a [PathBuf],
    pub suffixes: &'a [String],
    pub shared_path: &'a Path,
    /// Number of shared entries.
    pub shared: u64,
    pub cut: SliceStart,
    /// Number of the slice's own entries.
    pub own: u64,
    pub aliases: Aliases,
    /// `None` if slapd adds no operational attributes (`lastmod off`).
    pub complete: Option<OperationalAttributes>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct SliceCounts {
    /// Number of own entries that were sent.
    pub entries: u64,
    /// Whether the slice has the entry that gets contextCSN.
    pub root_met: bool,
}

/// Writes the slice to `sink`. Only the first slice adds the shared entries to `counters`.
pub fn feed(
    slice: &SliceOptions<'_>,
    sink: &mut impl Write,
    stamping: Option<ContextCsnStamp>,
    counters: &Counters,
) -> Result<SliceCounts> {
    let mut writer = Writer::new(slice, stamping);
    let silent = Counters::default();
    let mut text = Vec::with_capacity(2 * CHUNK);
    let (mut unsent_entries, mut unsent_bytes) = (0, 0);
    let entries = each(slice, &silent, |record, _, position| {
        counters.check()?;
        let start = text.len();
        writer.write(record, position, &mut text)?;
        if slice.cut.before == 0 || u64::from(position) >= slice.shared {
            unsent_entries += 1;
            unsent_bytes += (text.len() - start) as u64;
        }
        if text.len() >= CHUNK {
            sink.write_all(&text)?;
            text.clear();
            counters.add(mem::take(&mut unsent_entries), mem::take(&mut unsent_bytes));
        }
        Ok(true)
    })?;
    sink.write_all(&text)?;
    counters.add(unsent_entries, unsent_bytes);
    let root_met = writer.stamping.is_some_and(|stamping| stamping.found());
    Ok(SliceCounts { entries, root_met })
}

/// Calls `visit` with each record of the slice until `visit` returns false. The arguments are the record, its location
/// in the input (for a shared entry: in the file of shared entries), and the number of entries before it in the merged
/// database. Returns the number of own entries.
pub fn each(
    slice: &SliceOptions<'_>,
    counters: &Counters,
    mut visit: impl FnMut(&Record<'_>, RecordLocation, u32) -> Result<bool>,
) -> Result<u64> {
    let mut keys = Keys::new(slice.suffixes);
    let (mut shared, mut position, mut more) = (FxHashSet::default(), 0, true);
    walk(&[slice.shared_path.to_path_buf()], RecordLocation::START, counters, |record, place| {
        shared.insert(keys.of(&record.entry()?.dn).own);
        more = visit(record, place, position)?;
        position += 1;
        Ok(more)
    })?;
    let (mut entries, cut) = (0, slice.cut);
    // The sum fits in 32 bits: a plan has at most backmdb::MOST_ENTRIES entries.
    position += u32::try_from(cut.before).unwrap_or(u32::MAX);
    if !more || slice.own == 0 {
        return Ok(0);
    }
    let start = RecordLocation { file: cut.file, offset: cut.offset, line: cut.line };
    walk(slice.paths, start, counters, |record, place| {
        if shared.contains(&keys.of(&record.entry()?.dn).own) {
            return Ok(true);
        }
        entries += 1;
        more = visit(record, place, position)? && entries < slice.own;
        position = position.saturating_add(1);
        Ok(more)
    })?;
    Ok(entries)
}

/// Turns each record into the text that slapadd reads.
#[derive(Debug)]
pub struct Writer {
    complete: Option<OperationalAttributes>,
    pub stamping: Option<ContextCsnStamp>,
    editor: Editor,
    lower: Vec<u8>,
    extra: Vec<u8>,
}

impl Writer {
    pub fn new(slice: &SliceOptions<'_>, stamping: Option<ContextCsnStamp>) -> Self {
        let drop = stamping.as_ref().map(|_| context_csn()).unwrap_or_default();
        Self {
            complete: slice.complete.clone(),
            stamping: stamping.map(|stamping| stamping.with_aliases(slice.aliases.clone())),
            editor: Editor::new(drop).with_aliases(slice.aliases.clone()),
            lower: Vec::new(),
            extra: Vec::new(),
        }
    }

    pub fn write(&mut self, record: &Record<'_>, position: u32, out: &mut Vec<u8>) -> Result<()> {
        let Self { complete, stamping, editor, lower, extra } = self;
        extra.clear();
        editor.begin();
        let entry = record.entry()?;
        let mut has = [false; 4];
        for field in entry.fields {
            let field = field?;
            let description = hash_description(&field, lower);
            editor.see(&field, description);
            for (has, name) in has.iter_mut().zip(NAMES) {
                *has |= complete.is_some() && field.is(name);
            }
        }
        if let Some(complete) = complete {
            let older = |csn: &[u8]| stamping.as_ref()?.held_back(csn).map(<[u8]>::to_vec);
            complete.lines(&entry.dn, position, has, older, extra);
        }
        let Some(stamping) = stamping else { return editor.end(record, extra, out) };
        stamping.copy(editor, record, out)?;
        // Attributes are added before the blank line.
        out.pop();
        out.extend_from_slice(extra);
        out.push(b'\n');
        Ok(())
    }
}

const NAMES: [&str; 4] = ["entryUUID", "createTimestamp", "entryCSN", "modifyTimestamp"];

#[derive(Debug, Clone)]
pub struct OperationalAttributes {
    now: String,
    pattern: Vec<u8>,
    first: u64,
}

impl OperationalAttributes {
    /// `now` is formatted as in createTimestamp. `first` is the number of the first generated CSN.
    pub fn new(now: &str, server_id: u16, first: u64) -> Self {
        Self { now: now.to_owned(), pattern: csn_pattern(now, server_id), first }
    }

    /// Appends a line for each attribute of [`NAMES`] that the entry lacks according to `has`. `position` is the
    /// entry's ID minus one. `held_back` returns the CSN that must replace the generated CSN, if any.
    fn lines(
        &self,
        dn: &[u8],
        position: u32,
        has: [bool; 4],
        held_back: impl Fn(&[u8]) -> Option<Vec<u8>>,
        out: &mut Vec<u8>,
    ) {
        for (name, _) in NAMES.iter().zip(has).filter(|(_, has)| !has) {
            let value = match *name {
                "entryUUID" => spelled(uuid(&[dn, self.now.as_bytes()].concat())).to_vec(),
                "entryCSN" => {
                    let csn = csn_at(&self.pattern, self.first + u64::from(position));
                    held_back(&csn).unwrap_or(csn)
                }
                _ => self.now.clone().into_bytes(),
            };
            write::line(out, name.as_bytes(), &value);
        }
    }
}
