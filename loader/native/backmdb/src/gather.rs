//! The workers' results, put together in the order of the input: values go straight to id2e, the rest waits.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use common::InFile;
use extsort::{Spool, TupleSorter};
use ldif::tail;
use lmdbfile::{FileWriter, PendingValue, TreeWriter};

use crate::encoded::{
    Encoded, EncodedEntry, Hash, LastRecord, MultivalRecord, ROOT, Rejection, TruncationChecks,
};
use crate::live::SeenEntries;
use crate::names::{self, SUFFIX};
use crate::{Options, Result, positions};

/// Marks a tuple as a parent's name that is asked for, rather than an entry's.
pub const ASKED: u64 = 1 << 63;

/// Of so many entries one may be taken out again: else all are written anew.
const FEW: u64 = 1000;

/// Rejected entries told of beyond those that are allowed, before the reading stops.
pub const MORE_REJECTS: u64 = 1000;

/// What all chunks left behind.
#[derive(Debug)]
pub struct EncodedInput {
    pub file: FileWriter,
    pub id2e: TreeWriter,
    /// The suffix entry, when it gets its contextCSN last, and its value without.
    pub held: Option<(PendingValue, Vec<u8>)>,
    /// [`names`] of all entries in the order of the input.
    pub names: Spool,
    /// Values of id2v: position, column, record.
    pub rows: Spool,
    /// DN's hash, then its position, or [`ASKED`] and the number of the question.
    pub tuples: TupleSorter<[u64; 3]>,
    /// By number of the question: position of the first child in its chunk.
    pub askers: Vec<u32>,
    /// By number of the question: the parent's DN as its first child spells it.
    pub asked: Spool,
    pub rejections: Vec<Rejection>,
    /// Of a build beside a live server.
    pub live: Option<SeenEntries>,
    pub newest: BTreeMap<u16, Vec<u8>>,
    pub paths: Vec<Arc<PathBuf>>,
    pub records: u64,
    /// How many chunks these were.
    pub chunks: u64,
    /// The entry of the empty DN was among them, which takes no position.
    unplaced: u64,
    pub entries: u64,
    /// Of the input in hand.
    marks: TruncationChecks,
    /// The suffix entry that bears contextCSN.
    bearer: Option<Hash>,
    max_rejects: u64,
}

/// Where temporary data goes.
#[derive(Debug, Clone)]
pub struct TempStorage {
    pub memory: usize,
    pub threads: usize,
    pub scratch: PathBuf,
    pub stop: Arc<std::sync::atomic::AtomicBool>,
}

impl TempStorage {
    /// A share of the memory.
    pub fn spool(&self, part: usize) -> Spool {
        Spool::new(self.memory / part, &self.scratch, &self.stop)
    }

    /// The names of entries and of parents, for joining.
    pub fn tuples(&self) -> TupleSorter<[u64; 3]> {
        TupleSorter::new(self.memory / 8, self.threads, &self.scratch, &self.stop)
    }
}

impl TruncationChecks {
    fn judge(&self, last: &LastRecord) -> Result<()> {
        let always = self.stamped.map(|count| self.records > 0 && count == self.records);
        let missing = [0, 1].map(|at| always[at] && !last.stamped[at]);
        tail::judge(last.empty, missing)
            .map_err(|error| error.at(last.line).of_entry(Some(&last.dn)))
    }
}

impl EncodedInput {
    pub fn new(
        file: FileWriter,
        options: &Options,
        means: &TempStorage,
        bearer: Option<Hash>,
    ) -> Self {
        let layout = file.layout();
        Self {
            file,
            id2e: codec::tables::ID2E.writer(layout),
            held: None,
            names: means.spool(8),
            rows: means.spool(16),
            tuples: means.tuples(),
            askers: Vec::new(),
            asked: means.spool(32),
            rejections: Vec::new(),
            live: None,
            newest: BTreeMap::new(),
            paths: Vec::new(),
            records: 0,
            chunks: 0,
            unplaced: 0,
            entries: 0,
            marks: TruncationChecks::default(),
            bearer,
            max_rejects: options.max_rejects,
        }
    }

    /// The next chunk in the order of the input.
    pub fn take(&mut self, chunk: &mut Encoded) -> Result<()> {
        self.records += chunk.records;
        self.unplaced += chunk.unplaced;
        self.rejections.append(&mut chunk.rejections);
        self.expect_whole(chunk)?;
        if let Some(root) = chunk.root.take() {
            self.put(0, ROOT, &root)?;
        }
        let path = self.path_index(chunk.path.as_ref());
        let admitted = self.live.as_mut().map(|live| live.add(chunk)).transpose()?;
        let is_taken = |index: usize| admitted.as_ref().is_none_or(|admitted| admitted[index]);
        let first_question = self.ask(chunk, is_taken)?;
        let (mut blob_at, mut name_at, mut row_at) = (0, 0, 0);
        for (index, kept) in chunk.kept.iter().enumerate() {
            if is_taken(index) {
                let question = if kept.suffix { SUFFIX } else { first_question + kept.parent };
                let head = names::head(kept, question, path);
                let name = &chunk.names[name_at..kept.names_end];
                self.keep(kept, &chunk.blobs[blob_at..kept.blob_end], &[&head, name])?;
                self.keep_rows(kept.position, &chunk.rows[row_at..kept.rows_end])?;
            }
            (blob_at, name_at, row_at) = (kept.blob_end, kept.names_end, kept.rows_end);
        }
        for (sid, csn) in std::mem::take(&mut chunk.newest) {
            let newest = self.newest.entry(sid).or_default();
            if *newest < csn {
                *newest = csn;
            }
        }
        Ok(())
    }

    fn keep(&mut self, kept: &EncodedEntry, blob: &[u8], name: &[&[u8]]) -> Result<()> {
        self.entries += 1;
        self.put(self.entries, kept.hash, blob)?;
        self.names.append_parts(name)
    }

    fn keep_rows(&mut self, position: u32, rows: &[MultivalRecord]) -> Result<()> {
        for row in rows {
            let parts = [&position.to_le_bytes()[..], &row.column.to_le_bytes(), &row.record];
            self.rows.append_parts(&parts)?;
        }
        Ok(())
    }

    /// Refuses an input whose last record is broken off, or alone lacks what all others have: it was cut there. Where
    /// an earlier record fails the build, that is what the operator is told.
    fn expect_whole(&mut self, chunk: &mut Encoded) -> Result<()> {
        self.marks.records += chunk.marks.records;
        let counts = self.marks.stamped.iter_mut().zip(chunk.marks.stamped);
        counts.for_each(|(sum, count)| *sum += count);
        if !chunk.ends_input {
            return Ok(());
        }
        let marks = std::mem::take(&mut self.marks);
        let cut = chunk.marks.cut.take();
        let rejected = self.rejections.len() as u64 - u64::from(cut.is_some());
        if rejected > self.max_rejects {
            return Ok(());
        }
        let last = chunk.marks.last.as_ref();
        let judged =
            cut.map_or(Ok(()), Err).and_then(|()| last.map_or(Ok(()), |last| marks.judge(last)));
        judged.in_file(chunk.path.as_ref().map(|path| path.as_path()))
    }

    /// The tuples, for joining.
    pub fn take_tuples(&mut self, means: &TempStorage) -> TupleSorter<[u64; 3]> {
        std::mem::replace(&mut self.tuples, means.tuples())
    }

    /// Positions that got no ID while the values were written: ascending.
    pub fn positions_without_id(&self) -> Vec<u32> {
        let rejected = self.rejections.iter().map(|one| one.position);
        let skipped = self.live.iter().flat_map(|live| live.skipped.iter().copied());
        let mut found: Vec<u32> = rejected.chain(skipped).collect();
        found.sort_unstable();
        found
    }

    /// Positions of entries whose values are written, but nothing else shall be of them. Where they are few, their
    /// values are taken out afterwards.
    pub fn removed_positions(&self) -> &[u32] {
        self.live.as_ref().map_or(&[], |live| &live.left_out)
    }

    pub fn has_few_removed(&self) -> bool {
        self.removed_positions().len() as u64 <= self.records / FEW + 1000
    }

    /// The IDs with which their values are written.
    pub fn stale_ids(&self) -> Vec<u64> {
        if self.live.as_ref().is_none_or(|live| live.renumbered) {
            return Vec::new();
        }
        let vacant = self.positions_without_id();
        let id = |position: &u32| {
            let before = vacant.partition_point(|vacant| vacant < position);
            u64::from(*position) + 1 - before as u64
        };
        self.removed_positions().iter().map(id).collect()
    }

    /// Entries that were read and are neither rejected nor in the database.
    pub fn left_out(&self) -> (u64, u64) {
        let Some(live) = &self.live else { return (0, 0) };
        (live.skipped.len() as u64 + live.overtaken, live.dropped)
    }

    /// More were rejected than anybody wants to read of.
    pub fn exceeds_max_rejects(&self) -> bool {
        // Who reads a server for hours wants to know at once.
        let more = if self.live.is_some() { 0 } else { MORE_REJECTS };
        self.rejections.len() as u64 > self.max_rejects.saturating_add(more)
    }

    fn path_index(&mut self, path: Option<&Arc<PathBuf>>) -> u32 {
        if let Some(path) = path.filter(|path| self.paths.last() != Some(path)) {
            self.paths.push(Arc::clone(path));
        }
        u32::try_from(self.paths.len()).unwrap_or(u32::MAX)
    }

    /// Asks for the parents of a chunk; the number of its first question.
    fn ask(&mut self, chunk: &Encoded, is_taken: impl Fn(usize) -> bool) -> Result<u32> {
        let first = positions::question(self.askers.len(), chunk.parents.len())?;
        let taken = chunk.kept.iter().enumerate().filter(|(index, _)| is_taken(*index));
        let entries = taken.map(|(_, kept)| [kept.hash[0], kept.hash[1], u64::from(kept.position)]);
        let asked =
            (u64::from(first)..).zip(&chunk.parents).filter(|(_, parent)| parent.hash != ROOT);
        let asked = asked.map(|(number, parent)| [parent.hash[0], parent.hash[1], ASKED | number]);
        for tuple in entries.chain(asked) {
            self.tuples.push(tuple)?;
        }
        for parent in &chunk.parents {
            self.askers.push(if parent.hash == ROOT { names::ABOVE } else { parent.child });
            self.asked.append(&parent.text)?;
        }
        Ok(first)
    }

    /// Positions that the records take.
    pub fn positions(&self) -> u64 {
        self.records - self.unplaced
    }

    fn put(&mut self, id: u64, hash: Hash, blob: &[u8]) -> Result<()> {
        let key = id.to_ne_bytes();
        if self.held.is_none() && Some(hash) == self.bearer {
            let held = self.id2e.held(&mut self.file, &key)?;
            self.held = Some((held, blob.to_vec()));
            return Ok(());
        }
        Ok(self.id2e.put(&mut self.file, &key, blob)?)
    }
}
