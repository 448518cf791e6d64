//! Collects the workers' results in the order of the input: values go straight to id2e, everything else is spooled.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use common::InFile;
use extsort::{RecordSorter, Records, Spool, TupleSorter};
use ldif::tail;
use lmdbfile::{FileWriter, PendingValue, TreeWriter};

use crate::encoded::{Encoded, Hash, LastRecord, ROOT, Rejection, TruncationChecks};
use crate::live::SeenEntries;
use crate::names::{self, SUFFIX};
use crate::{Options, Result, positions};

/// Marks a tuple as the question for a parent. A tuple without this bit is an entry.
pub const ASKED: u64 = 1 << 63;

/// If more than 1000 entries plus one entry in `FEW` are removed, id2e is rewritten instead of patched.
const FEW: u64 = 1000;

/// Number of rejected entries beyond the limit that are reported before the build stops reading.
pub const MORE_REJECTS: u64 = 1000;

/// The collected results of all chunks.
pub struct EncodedInput {
    pub file: FileWriter,
    pub id2e: TreeWriter,
    /// The suffix entry that gets contextCSN after all entries are read, and its value without contextCSN.
    pub pending: Option<(PendingValue, Vec<u8>)>,
    /// [`names`] of all entries, in the order of the input.
    pub names: Spool,
    /// Rows of id2v, each after its position and its column.
    pub rows: Spool,
    /// For an entry, the hash of its DN and its position. For a question, the hash of the parent's DN, and [`ASKED`]
    /// with the question's number.
    pub tuples: TupleSorter<[u64; 3]>,
    /// By question number: the position of the parent's first child in the chunk.
    pub askers: Vec<u32>,
    /// By question number: the parent's DN as its first child in the chunk spells it.
    asked: Spool,
    pub rejections: Vec<Rejection>,
    /// Only in a build from a live server.
    pub live: Option<SeenEntries>,
    /// Server ID -> greatest entryCSN, normalised.
    pub newest: BTreeMap<u16, Vec<u8>>,
    paths: Vec<Arc<PathBuf>>,
    pub records: u64,
    /// Number of chunks.
    pub chunks: u64,
    /// Number of records without a position: 1 for the entry of the empty DN.
    unplaced: u64,
    entries: u64,
    /// Counts for the current input.
    marks: TruncationChecks,
    /// Hash of the suffix whose entry gets contextCSN.
    bearer: Option<Hash>,
    max_rejects: u64,
}

/// Memory, threads and directory for temporary data.
#[derive(Debug, Clone)]
pub struct TempStorage {
    /// In bytes.
    pub memory: usize,
    pub threads: usize,
    pub scratch: PathBuf,
    pub stop: Arc<std::sync::atomic::AtomicBool>,
}

impl TempStorage {
    /// Creates a spool that may use 1/`part` of the memory.
    pub fn spool(&self, part: usize) -> Spool {
        Spool::new(self.memory / part, &self.scratch, &self.stop)
    }

    /// Creates a sorter that may use a quarter of the memory.
    pub fn records(&self) -> RecordSorter {
        RecordSorter::new(self.memory / 4, self.threads, &self.scratch, &self.stop)
    }

    /// Creates the sorter that joins entries with their parents.
    pub fn tuples(&self) -> TupleSorter<[u64; 3]> {
        TupleSorter::new(self.memory / 8, self.threads, &self.scratch, &self.stop)
    }
}

/// Sorted records; the next record is read ahead.
pub struct SortedRecords {
    records: Records,
    /// The prefix by which the next record was sorted, and its bytes.
    pub next: Option<(u128, Vec<u8>)>,
}

impl SortedRecords {
    pub fn new(sorter: RecordSorter) -> Result<Self> {
        let mut records = Self { records: sorter.finish()?, next: None };
        records.step()?;
        Ok(records)
    }

    pub fn step(&mut self) -> Result<()> {
        let mut buffer = self.next.take().map(|(_, record)| record).unwrap_or_default();
        if let Some((prefix, record)) = self.records.next()? {
            buffer.clear();
            buffer.extend_from_slice(record);
            self.next = Some((prefix, buffer));
        }
        Ok(())
    }
}

impl TruncationChecks {
    fn judge(&self, last: &LastRecord) -> Result<()> {
        let always = self.stamped.map(|count| self.records > 0 && count == self.records);
        let missing = [0, 1].map(|at| always[at] && !last.stamped[at]);
        tail::judge(last.empty, missing).map_err(|error| error.at(last.line).of_entry(Some(&last.dn)))
    }
}

impl EncodedInput {
    pub fn new(file: FileWriter, options: &Options, temp: &TempStorage, bearer: Option<Hash>) -> Self {
        let layout = file.layout();
        Self {
            file,
            id2e: codec::tables::ID2E.writer(layout),
            pending: None,
            names: temp.spool(8),
            rows: temp.spool(16),
            tuples: temp.tuples(),
            askers: Vec::new(),
            asked: temp.spool(32),
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

    /// Adds the next chunk. Chunks must come in the order of the input.
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
        let is_admitted = |index: usize| admitted.as_ref().is_none_or(|admitted| admitted[index]);
        let first_question = self.ask(chunk, is_admitted)?;
        let (mut blob_at, mut name_at, mut row_at) = (0, 0, 0);
        for (index, kept) in chunk.kept.iter().enumerate() {
            if is_admitted(index) {
                let question = if kept.suffix { SUFFIX } else { first_question + kept.parent };
                let head = names::head(kept, question, path);
                self.entries += 1;
                self.put(self.entries, kept.hash, &chunk.blobs[blob_at..kept.blob_end])?;
                self.names.append_parts(&[&head, &chunk.names[name_at..kept.names_end]])?;
                for row in &chunk.rows[row_at..kept.rows_end] {
                    let parts = [&kept.position.to_le_bytes()[..], &row.column.to_le_bytes(), &row.record];
                    self.rows.append_parts(&parts)?;
                }
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

    /// Refuses a truncated input: its last record is incomplete, or is the only record that lacks entryCSN or
    /// modifyTimestamp. If more records than allowed were rejected before, they are reported instead.
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
        let checked = cut.map_or(Ok(()), Err).and_then(|()| last.map_or(Ok(()), |last| marks.judge(last)));
        checked.in_file(chunk.path.as_ref().map(|path| path.as_path()))
    }

    /// Returns the tuples for the join, and leaves none.
    pub fn take_tuples(&mut self, temp: &TempStorage) -> TupleSorter<[u64; 3]> {
        std::mem::replace(&mut self.tuples, temp.tuples())
    }

    /// Returns the ascending positions that got no ID when the values were written.
    pub fn positions_without_id(&self) -> Vec<u32> {
        let rejected = self.rejections.iter().map(|rejection| rejection.position);
        let skipped = self.live.iter().flat_map(|live| live.skipped.iter().copied());
        let mut positions: Vec<u32> = rejected.chain(skipped).collect();
        positions.sort_unstable();
        positions
    }

    /// Returns the positions of entries in id2e that must not appear in any other table. If these entries are few,
    /// they are removed from id2e after the build.
    pub fn removed_positions(&self) -> &[u32] {
        self.live.as_ref().map_or(&[], |live| &live.left_out)
    }

    pub fn has_few_removed(&self) -> bool {
        self.removed_positions().len() as u64 <= self.records / FEW + 1000
    }

    /// Returns the IDs under which id2e has the values of removed entries.
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

    /// Returns the number of duplicates and the number of orphans, which were neither rejected nor stored.
    pub fn left_out(&self) -> (u64, u64) {
        let Some(live) = &self.live else { return (0, 0) };
        (live.skipped.len() as u64 + live.superseded, live.dropped)
    }

    /// Returns true if reading should stop because too many entries were rejected.
    pub fn exceeds_max_rejects(&self) -> bool {
        // Reading a server takes hours, so the first rejection beyond the limit ends a build from a live server.
        let more = if self.live.is_some() { 0 } else { MORE_REJECTS };
        self.rejections.len() as u64 > self.max_rejects.saturating_add(more)
    }

    fn path_index(&mut self, path: Option<&Arc<PathBuf>>) -> u32 {
        if let Some(path) = path.filter(|path| self.paths.last() != Some(path)) {
            self.paths.push(Arc::clone(path));
        }
        u32::try_from(self.paths.len()).unwrap_or(u32::MAX)
    }

    /// Returns the path of the file to which spooled names refer by `index`; `None` for a stream.
    pub fn path(&self, index: u32) -> Option<Arc<PathBuf>> {
        (index as usize).checked_sub(1).and_then(|index| self.paths.get(index)).cloned()
    }

    /// Passes to `visit` each question's number, and the DN of the parent that the question asks for.
    pub fn each_question(&self, mut visit: impl FnMut(u32, &[u8]) -> Result<()>) -> Result<()> {
        let (mut reader, mut question) = (self.asked.reader(), 0);
        while let Some(dn) = reader.next()? {
            visit(question, dn)?;
            question += 1;
        }
        Ok(())
    }

    /// Adds tuples for the admitted entries of a chunk and questions for its parents. Returns the first question's
    /// number.
    fn ask(&mut self, chunk: &Encoded, is_admitted: impl Fn(usize) -> bool) -> Result<u32> {
        let first = positions::question(self.askers.len(), chunk.parents.len())?;
        let admitted = chunk.kept.iter().enumerate().filter(|(index, _)| is_admitted(*index));
        let entries = admitted.map(|(_, kept)| [kept.hash[0], kept.hash[1], u64::from(kept.position)]);
        let asked = (u64::from(first)..).zip(&chunk.parents).filter(|(_, parent)| parent.hash != ROOT);
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

    /// Returns the number of records that have a position.
    pub fn positions(&self) -> u64 {
        self.records - self.unplaced
    }

    fn put(&mut self, id: u64, hash: Hash, blob: &[u8]) -> Result<()> {
        let key = id.to_ne_bytes();
        if self.pending.is_none() && Some(hash) == self.bearer {
            let pending = self.id2e.held(&mut self.file, &key)?;
            self.pending = Some((pending, blob.to_vec()));
            return Ok(());
        }
        Ok(self.id2e.put(&mut self.file, &key, blob)?)
    }
}
