//! Exports a database as LDIF: to files, or to one stream, to which the workers write in the order of entry IDs.
//!
//! An entry that was moved (modrdn) below a newer entry has a lower ID than its parent. Such entries, and all entries
//! below them, are held back until all other entries are written.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use common::{Code, Counters, InFile, lock};
use extsort::RecordSorter;
use ldif::{Output, StreamWriter};
use tree::Names;
use tree::fingerprint::{Checksum, Fingerprinter, Totals};
use workers::Turn;

use crate::base::{self, Found};
use crate::entry::Entry;
use crate::parents::ParentDn;
use crate::tables::{Tables, open};
use crate::walk::{Plan, WalkCounts, Worker};
use crate::{Result, Source};

/// Size in bytes of the pages whose entries go to one file.
const PIECE: u64 = 64 << 20;
/// Maximum number of files, not counting the files of held-back entries.
const MOST: usize = 2000;
/// Size of a write to a file, in bytes.
const CHUNK: usize = 256 << 10;
/// Size in bytes of a range of pages in a stream.
const STREAM_PIECE: u64 = 4 << 20;
/// Maximum number of ranges of a stream.
const STREAM_MOST: usize = 100_000;
/// Bytes of LDIF that a worker buffers before it waits for its turn to write to a stream.
const BUFFER_BYTES: usize = 4 << 20;
/// Maximum number of zstd threads.
const THREADS: usize = 200;
/// Memory for held-back entries, in bytes; beyond it they go to an unlinked temporary file.
const HELD_BACK_BYTES: usize = 32 << 20;

/// The format of the output.
#[derive(Debug, Clone, Copy, Default)]
pub struct LdifFormat {
    /// Whether to compress with zstd, and to append `.zst` to file names.
    pub compress: bool,
    /// Only for a stream: writes what slapcat writes, in the order of IDs even if a parent then follows its children,
    /// with lines folded after that many characters (0: unfolded). No checksum is computed.
    pub as_slapcat: Option<usize>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exported {
    pub entries: u64,
    /// Number of entries that have children but were never added themselves. The export omits them.
    pub holes: u64,
    /// Number of entries with a lower ID than their parent, and of those below. They are written last, parents first.
    pub late: u64,
    /// Size of the LDIF before compression, in bytes.
    pub bytes: u64,
    /// Checksum of the entries in all files, as of a [`tree::Digest`] that ignores no attribute.
    pub checksum: String,
    /// The files in the order in which they must be loaded; empty for a stream.
    pub files: Vec<Finished>,
    /// The base DN or, without a base, the suffix, as spelled in the database; empty if there are several suffixes.
    pub base: String,
    /// The values of contextCSN in the suffix entry.
    pub context_csns: Vec<String>,
    /// Number of ID ranges that the workers shared.
    pub ranges: usize,
}

/// Writes all entries of `source` to files in the directory of `place`, which must be empty; parents come before
/// children. The files are synced, and depend on nothing but the contents of the database.
pub fn export(source: &Source, place: &ShardTarget, counters: &Counters) -> Result<Exported> {
    let snapshot = open(&source.path, source.txn)?;
    let root = ExportHead::find(&Tables::of(&snapshot)?, source)?;
    let (jobs, base, ignore) = (source.jobs, root.id, &Names::default());
    let after = source.after;
    let plan = Plan { jobs, base, after, ignore, piece: PIECE, most: MOST, counters };
    let late = HeldBackEntries::new(&place.directory, counters);
    let all = Gathered { late, done: Mutex::default() };
    let met = plan.run(&snapshot, || Writer::new(place, &all), || ())?;
    let done = all.finish(place, root.exported(met))?;
    File::open(&place.directory).and_then(|directory| directory.sync_all()).in_file(Some(&place.directory))?;
    Ok(done)
}

/// The parts of the report that do not depend on the entries read.
struct ExportHead {
    /// ID of the base entry; 0 selects all entries.
    id: u64,
    dn: String,
    context_csns: Vec<String>,
}

impl ExportHead {
    fn find(tables: &Tables<'_>, source: &Source) -> Result<Self> {
        let base = source.base.as_deref().map(|base| base::find(tables, base)).transpose()?;
        let suffixes = base::suffixes(tables)?;
        let rooted = tables.id2e.get(&0u64.to_ne_bytes())?.is_some();
        let root = Found { id: 0, dn: Vec::new() };
        let suffix = match &base {
            // If the suffix is "", contextCSN is in the entry with the empty DN.
            _ if rooted => Some(&root),
            Some(base) => suffixes.iter().find(|suffix| base.dn.ends_with(&suffix.dn)),
            None => suffixes.first().filter(|_| suffixes.len() == 1),
        };
        let named: Option<&Found> = base.as_ref().or(suffix);
        Ok(Self {
            id: base.as_ref().map_or(0, |base| base.id),
            dn: named.map(|found| text(&found.dn)).unwrap_or_default(),
            context_csns: suffix.map_or(Ok(Vec::new()), |suffix| context_csns(tables, suffix.id))?,
        })
    }

    fn exported(self, met: WalkCounts) -> Exported {
        let WalkCounts { entries, holes, ranges, .. } = met;
        let (base, context_csns) = (self.dn, self.context_csns);
        Exported { entries, holes, base, context_csns, ranges, ..Exported::default() }
    }
}

fn context_csns(tables: &Tables<'_>, suffix: u64) -> Result<Vec<String>> {
    let mut found = Vec::new();
    tables.show(suffix, |entry| {
        entry.each(|value| match value {
            Some(value) if value.description.text().eq_ignore_ascii_case(b"contextCSN") => {
                found.push(text(value.bytes));
            }
            Some(_) => {}
            None => found.clear(),
        })
    })?;
    Ok(found)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The results that all workers share.
#[derive(Debug)]
struct Gathered {
    late: HeldBackEntries,
    done: Mutex<Vec<Finished>>,
}

impl Gathered {
    fn finish(self, place: &ShardTarget, done: Exported) -> Result<Exported> {
        let mut files = self.done.into_inner().unwrap_or_else(PoisonError::into_inner);
        files.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let (late, last) = self.late.write(place, done.ranges + 1)?;
        files.extend(last);
        let mut all = Totals::default();
        for file in &files {
            all.join(file.tally);
        }
        let bytes = files.iter().map(|file| file.bytes).sum();
        Ok(Exported { late, bytes, checksum: all.checksum.hex(), files, ..done })
    }
}

/// State of a worker that writes files.
#[derive(Debug)]
struct Writer<'g> {
    place: &'g ShardTarget,
    all: &'g Gathered,
    printer: Fingerprinter,
    shard: Option<Shard>,
    /// The previous file, which is synced while the worker writes the current one.
    before: Option<ClosingShard>,
}

impl<'g> Writer<'g> {
    fn new(place: &'g ShardTarget, all: &'g Gathered) -> Self {
        Self { place, all, printer: Fingerprinter::default(), shard: None, before: None }
    }
}

impl Worker for Writer<'_> {
    fn begin(&mut self, range: usize) -> Result<()> {
        self.shard = Some(Shard::new(&self.place.directory, self.place.name(range + 1)));
        Ok(())
    }

    fn entry(&mut self, entry: &Entry<'_>) -> Result<u64> {
        let Some(shard) = &mut self.shard else { return Ok(0) };
        let start = shard.text.len();
        let print = entry.record(&mut shard.text, &mut self.printer)?;
        let length = (shard.text.len() - start) as u64;
        if entry.place.late {
            self.all.late.push(entry.id, entry.place, print, &shard.text[start..])?;
            shard.text.truncate(start);
        } else {
            shard.tally.add(print);
        }
        shard.written()?;
        Ok(length)
    }

    fn end(&mut self) -> Result<()> {
        let ended = self.shard.take().map_or(Ok(None), Shard::end)?;
        let before = std::mem::replace(&mut self.before, ended);
        let finished = before.map(ClosingShard::wait).transpose()?;
        let mut done = lock(&self.all.done);
        done.extend(finished);
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        self.end()
    }
}

// --- files ---

/// The directory for the files, and their format.
#[derive(Debug, Clone)]
pub struct ShardTarget {
    pub directory: PathBuf,
    pub format: LdifFormat,
}

impl ShardTarget {
    /// Returns the name of a file. Names sort in the order of their numbers.
    fn name(&self, number: usize) -> String {
        let suffix = if self.format.compress { "ldif.zst" } else { "ldif" };
        format!("{number:04}.{suffix}")
    }
}

/// A file that is being written. It is created with the first data, so that a range without entries leaves no file.
#[derive(Debug)]
struct Shard {
    name: String,
    path: PathBuf,
    output: Option<Output>,
    text: Vec<u8>,
    /// Size before compression, in bytes.
    bytes: u64,
    tally: Totals,
}

/// A complete and synced file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    pub name: String,
    /// XXH3 checksum of the file (128 bits) in hexadecimal.
    pub sum: String,
    /// Size before compression, in bytes.
    pub bytes: u64,
    pub tally: Totals,
}

impl Shard {
    fn new(directory: &Path, name: String) -> Self {
        let path = directory.join(&name);
        let text = Vec::with_capacity(CHUNK + (CHUNK >> 2));
        Self { name, path, output: None, text, bytes: 0, tally: Totals::default() }
    }

    /// Writes `text`, which must consist of complete entries, if it has at least [`CHUNK`] bytes.
    #[inline]
    fn written(&mut self) -> Result<()> {
        if self.text.len() < CHUNK { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<()> {
        if self.text.is_empty() {
            return Ok(());
        }
        let mut output = match self.output.take() {
            Some(output) => output,
            None => Output::create_summed(&self.path, 0)?,
        };
        self.bytes += self.text.len() as u64;
        let written = output.write(&self.text);
        self.text.clear();
        self.output = Some(output);
        written
    }

    /// Ends the file and waits until it is synced; returns `None` if there was no entry.
    fn finish(self) -> Result<Option<Finished>> {
        self.end()?.map(ClosingShard::wait).transpose()
    }

    /// Ends the file without waiting for the sync; returns `None` if there was no entry.
    fn end(mut self) -> Result<Option<ClosingShard>> {
        self.flush()?;
        let Some(output) = self.output else { return Ok(None) };
        let (name, bytes, tally) = (self.name, self.bytes, self.tally);
        Ok(Some(ClosingShard { name, bytes, tally, output: output.end()? }))
    }
}

/// A complete file that is being synced.
#[derive(Debug)]
struct ClosingShard {
    name: String,
    bytes: u64,
    tally: Totals,
    output: ldif::Closing,
}

impl ClosingShard {
    /// Waits until the file is synced.
    fn wait(self) -> Result<Finished> {
        let sum = self.output.wait()?;
        Ok(Finished { name: self.name, sum, bytes: self.bytes, tally: self.tally })
    }
}

/// The held-back entries. They are sorted by depth, so that parents come first.
#[derive(Debug)]
struct HeldBackEntries(Mutex<HeldBack>);

#[derive(Debug)]
struct HeldBack {
    /// `None` once [`HeldBackEntries::each`] was called.
    sorter: Option<RecordSorter>,
    count: u64,
}

impl HeldBackEntries {
    /// `scratch` is the directory for the temporary file.
    fn new(scratch: &Path, counters: &Counters) -> Self {
        let sorter = RecordSorter::new(HELD_BACK_BYTES, 1, scratch, counters.flag());
        Self(Mutex::new(HeldBack { sorter: Some(sorter), count: 0 }))
    }

    /// Adds an entry as LDIF, with its fingerprint `print`.
    fn push(&self, id: u64, place: &ParentDn, print: u128, text: &[u8]) -> Result<()> {
        let kept = [&print.to_le_bytes(), text].concat();
        let mut held_back = lock(&self.0);
        held_back.count += 1;
        let prefix = u128::from(place.depth) << 64 | u128::from(id);
        held_back.sorter.as_mut().map_or(Ok(()), |sorter| sorter.push(prefix, &kept))
    }

    /// Writes the entries to files whose numbers begin at `number`. Returns the number of entries, and the files.
    fn write(&self, place: &ShardTarget, mut number: usize) -> Result<(u64, Vec<Finished>)> {
        let mut shard = Shard::new(&place.directory, place.name(number));
        let mut files = Vec::new();
        let count = self.each(|print, text| {
            shard.tally.add(print);
            shard.text.extend_from_slice(text);
            shard.written()?;
            if shard.bytes >= PIECE {
                number += 1;
                let next = Shard::new(&place.directory, place.name(number));
                files.extend(std::mem::replace(&mut shard, next).finish()?);
            }
            Ok(())
        })?;
        files.extend(shard.finish()?);
        Ok((count, files))
    }

    /// Calls `see` with the fingerprint and the LDIF of each entry, parents first. Returns the number of entries, which
    /// is 0 for a second call.
    fn each(&self, mut see: impl FnMut(u128, &[u8]) -> Result<()>) -> Result<u64> {
        let mut held_back = lock(&self.0);
        let Some(sorter) = held_back.sorter.take() else { return Ok(0) };
        let mut records = sorter.finish()?;
        while let Some((_, kept)) = records.next()? {
            if let Some((print, text)) = kept.split_first_chunk() {
                see(u128::from_le_bytes(*print), text)?;
            }
        }
        Ok(held_back.count)
    }
}

// --- one stream ---

/// Writes all entries of `source` to `fd`: the same records in the same order as [`export`]. Held-back entries beyond
/// the memory limit go to a temporary file in the directory `scratch`.
pub fn stream(
    source: &Source,
    fd: OwnedFd,
    format: LdifFormat,
    scratch: &Path,
    counters: &Counters,
) -> Result<Exported> {
    #[allow(clippy::cast_possible_truncation, reason = "a few at most")]
    let threads = format.compress.then(|| source.jobs.clamp(1, THREADS) as u32);
    let mut out = StreamWriter::new(fd, threads, counters)?;
    let written = write(source, &mut out, format, &HeldBackEntries::new(scratch, counters), counters);
    match written {
        Ok(done) => out.finish().map(|()| done),
        Err(error) => {
            if error.code != Code::Pipe {
                out.give_up();
            }
            Err(error)
        }
    }
}

fn write(
    source: &Source,
    out: &mut StreamWriter<'_>,
    format: LdifFormat,
    late: &HeldBackEntries,
    counters: &Counters,
) -> Result<Exported> {
    let snapshot = open(&source.path, source.txn)?;
    let root = ExportHead::find(&Tables::of(&snapshot)?, source)?;
    let (jobs, base, ignore) = (source.jobs, root.id, &Names::default());
    let after = source.after;
    let plan = Plan { jobs, base, after, ignore, piece: STREAM_PIECE, most: STREAM_MOST, counters };
    let turn = Turn::new(StreamOutput { out, done: Done::default() });
    let make = || StreamWorker::new(&turn, late, format);
    let met = plan.run(&snapshot, make, || turn.abandon())?;
    let StreamOutput { out, mut done } = turn.into_inner();
    let late = late.each(|_, text| {
        done.bytes += text.len() as u64;
        out.write(text)
    })?;
    let Done { checksum, bytes } = done;
    Ok(Exported { late, bytes, checksum: checksum.hex(), ..root.exported(met) })
}

/// The output stream, which the workers use in the order of their ranges.
struct StreamOutput<'l, 'o> {
    out: &'l mut StreamWriter<'o>,
    done: Done,
}

#[derive(Debug, Default, Clone, Copy)]
struct Done {
    checksum: Checksum,
    bytes: u64,
}

/// State of a worker that writes to a stream.
struct StreamWorker<'t, 'l, 'o> {
    turn: &'t Turn<StreamOutput<'l, 'o>>,
    late: &'t HeldBackEntries,
    format: LdifFormat,
    range: u64,
    text: Vec<u8>,
    printer: Fingerprinter,
    done: Done,
}

impl<'t, 'l, 'o> StreamWorker<'t, 'l, 'o> {
    fn new(turn: &'t Turn<StreamOutput<'l, 'o>>, late: &'t HeldBackEntries, format: LdifFormat) -> Self {
        let (text, printer) = (Vec::with_capacity(BUFFER_BYTES + (BUFFER_BYTES >> 4)), Fingerprinter::default());
        Self { turn, late, format, range: 0, text, printer, done: Done::default() }
    }

    fn hand_on(&mut self) -> Result<()> {
        self.turn.with(self.range, |output| output.out.write(&self.text))??;
        self.done.bytes += self.text.len() as u64;
        self.text.clear();
        Ok(())
    }
}

/// Folds the last line of `text`, which begins at `start`, after `wrap` characters (at least 2; 0: never). As in
/// slapcat, a description and the `: ` or `:: ` after it are never folded.
#[inline]
fn fold(text: &mut Vec<u8>, start: usize, wrap: usize) {
    if wrap > 0 && text.len() - start > wrap + 1 {
        fold_long(text, start, wrap);
    }
}

#[cold]
fn fold_long(text: &mut Vec<u8>, start: usize, wrap: usize) {
    let line = text.split_off(start);
    let name = line.iter().take_while(|&&byte| byte != b':').count();
    let colons = line[name..].iter().take_while(|&&byte| byte == b':').take(2).count();
    let (mut rest, mut room) = (&line[..], wrap.max(name + colons + 1));
    while rest.len() > room + 1 {
        let (head, tail) = rest.split_at(room);
        text.extend_from_slice(head);
        text.extend_from_slice(b"\n ");
        (rest, room) = (tail, wrap - 1);
    }
    text.extend_from_slice(rest);
}

impl Worker for StreamWorker<'_, '_, '_> {
    fn begin(&mut self, range: usize) -> Result<()> {
        self.range = range as u64;
        Ok(())
    }

    fn entry(&mut self, entry: &Entry<'_>) -> Result<u64> {
        let start = self.text.len();
        if let Some(wrap) = self.format.as_slapcat {
            entry.ldif(&mut self.text, |text, start| fold(text, start, wrap))?;
            if self.text.len() >= BUFFER_BYTES {
                self.hand_on()?;
            }
            return Ok(entry.value.len() as u64);
        }
        let print = entry.record(&mut self.text, &mut self.printer)?;
        self.done.checksum.add(print);
        let length = (self.text.len() - start) as u64;
        if entry.place.late {
            self.late.push(entry.id, entry.place, print, &self.text[start..])?;
            self.text.truncate(start);
        } else if self.text.len() >= BUFFER_BYTES {
            self.hand_on()?;
        }
        Ok(length)
    }

    fn end(&mut self) -> Result<()> {
        self.hand_on()?;
        let done = std::mem::take(&mut self.done);
        self.turn.with(self.range, |output| {
            output.done.bytes += done.bytes;
            output.done.checksum.join(done.checksum);
        })?;
        Ok(self.turn.pass(self.range)?)
    }
}
