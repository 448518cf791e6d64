//! Exports a database to LDIF files.

use std::fs::File;
use std::sync::{Mutex, PoisonError};

use common::{Counters, InFile, lock};
use tree::Names;
use tree::fingerprint::{Fingerprinter, Totals};

use crate::base::{self, Found};
use crate::entry::Entry;
use crate::shard::{ClosingShard, Finished, HeldBackEntries, Shard};
use crate::tables::{Tables, open};
use crate::walk::{Plan, WalkCounts, Worker};
use crate::{Result, Source};

pub use crate::shard::ShardTarget;

/// The size of the pages that go to one file, in bytes.
const PIECE: u64 = 64 << 20;
/// The highest number of files, those of held-back entries not included.
const MOST: usize = 2000;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exported {
    pub entries: u64,
    /// Entries that have children but were never added themselves; the export does not contain them.
    pub holes: u64,
    /// Entries with a lower ID than their parent, and all entries below them. They come last, parents first.
    pub late: u64,
    /// The size of the LDIF before compression.
    pub bytes: u64,
    /// The checksum of a [`tree::Digest`] of all files that ignores no attribute.
    pub checksum: String,
    /// In the order in which they must be loaded; empty for a stream.
    pub files: Vec<Finished>,
    /// The base, or else the suffix, as the database spells it; empty if there is no base but several suffixes.
    pub base: String,
    /// The values of contextCSN of the suffix entry.
    pub context_csns: Vec<String>,
    /// The number of ID ranges that the workers shared.
    pub ranges: usize,
}

/// Writes all entries of `source` to files in the empty directory of `place`, parents before children. The files are
/// synced when it returns, and depend only on the contents of the database.
pub fn export(source: &Source<'_>, place: &ShardTarget, counters: &Counters) -> Result<Exported> {
    let snapshot = open(source.path, source.txn)?;
    let root = ExportHead::find(&Tables::of(&snapshot)?, source)?;
    let (jobs, base, ignore) = (source.jobs, root.id, &Names::default());
    let plan = Plan { jobs, base, ignore, piece: PIECE, most: MOST, counters };
    let late = HeldBackEntries::new(&place.directory, counters);
    let all = Gathered { late, done: Mutex::default() };
    let met = plan.run(&snapshot, || Writer::new(place, &all), || ())?;
    let done = all.finish(place, root.exported(met))?;
    File::open(&place.directory)
        .and_then(|directory| directory.sync_all())
        .in_file(Some(&place.directory))?;
    Ok(done)
}

/// What a report says about the database as a whole.
#[derive(Debug)]
pub(crate) struct ExportHead {
    /// The ID of the base; 0 selects all entries.
    pub(crate) id: u64,
    pub(crate) dn: String,
    pub(crate) context_csns: Vec<String>,
}

impl ExportHead {
    pub(crate) fn find(tables: &Tables<'_>, source: &Source<'_>) -> Result<Self> {
        let base = source.base.map(|base| base::find(tables, base)).transpose()?;
        let suffixes = base::suffixes(tables)?;
        let rooted = tables.id2e.get(&0u64.to_ne_bytes())?.is_some();
        let root = Found { id: 0, dn: Vec::new() };
        let suffix = match &base {
            // If the suffix is "", the entry with the empty DN holds contextCSN.
            _ if rooted => Some(&root),
            Some(base) => suffixes.iter().find(|suffix| base.dn.ends_with(&suffix.dn)),
            None => suffixes.first().filter(|_| suffixes.len() == 1),
        };
        let named: Option<&Found> = base.as_ref().or(suffix);
        Ok(Self {
            id: base.as_ref().map_or(0, |base| base.id),
            dn: named.map(|found| text(&found.dn)).unwrap_or_default(),
            context_csns: suffix
                .map_or(Ok(Vec::new()), |suffix| context_csns(tables, suffix.id))?,
        })
    }

    pub(crate) fn exported(self, met: WalkCounts) -> Exported {
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

/// The results of all workers.
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

/// The state of one worker.
#[derive(Debug)]
struct Writer<'g> {
    place: &'g ShardTarget,
    all: &'g Gathered,
    printer: Fingerprinter,
    shard: Option<Shard>,
    /// The previous shard. It is synced while the worker writes the current one.
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
