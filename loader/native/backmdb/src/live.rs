//! A build from a live server: an entry may be read twice, or its parent may be gone.
//!
//! An entry that is read again is recognised by its entryUUID. If its DN is unchanged, the first copy stays in id2e:
//! any change in between is newer than the claimed contextCSN, so syncrepl sends it.
//!
//! slapd walks a subtree by names, so an entry that is renamed during the search may be sent twice. The second copy's
//! entryCSN is newer than the claimed contextCSN. The entries below a renamed container keep their entryCSN, but are
//! read again. So no search for duplicate entryUUIDs among all entries is needed.

use std::path::PathBuf;

use extsort::{Spool, SpoolReader, TupleSorter};
use ldif::walk::each_record;
use ldif::{Counters, Input, Record};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::chunks::Source;
use crate::encoded::{Encoded, EncodedEntry, EntryVersion, Hash, ROOT};
use crate::gather::{ASKED, EncodedInput, TempStorage};
use crate::join::{ParentTable, join};
use crate::superseded::Superseded;
use crate::{LiveSource, Result, build::Build};
use crate::{Orphan, orphans};

/// Reads entries from the server again. Gets the orphans (none at the first call), and returns LDIF files with the
/// entries that were read since. If it returns no file, the orphans are left out.
pub type Reread<'a> = dyn Fn(Vec<Orphan>) -> Result<Vec<PathBuf>> + Sync + 'a;

/// Asks the server about entryUUIDs that were read under several DNs. Fails unless each belongs to a renamed entry.
pub type Renamed<'a> = dyn Fn(Vec<String>) -> Result<()> + Sync + 'a;

/// The entries that a build from a live server has read.
pub struct SeenEntries {
    /// A [`SpooledKey`] for each kept entry.
    keys: Spool,
    /// Hash of the parent, by question number.
    questions: Spool,
    /// The file that is read first; its entries come again later.
    head: Option<PathBuf>,
    /// Positions of entries that may come again, by entryUUID and DN hash.
    expected: FxHashMap<(u128, Hash), u32>,
    /// entryUUIDs that more than one kept entry may have.
    pub doubtful: FxHashSet<u128>,
    /// Positions of entries that were not kept, because the same entryUUID and DN had come before.
    pub skipped: Vec<u32>,
    /// For each entry that the second pass read with the same DN: position of the first copy -> position of the second.
    confirmed: FxHashMap<u32, u32>,
    /// The first position of the second pass.
    second_pass: Option<u32>,
    /// Ascending positions of entries that are left out although id2e has their values.
    pub left_out: Vec<u32>,
    /// Number of left-out entries that have a newer copy.
    pub superseded: u64,
    /// Number of left-out entries without a path to a suffix.
    pub dropped: u64,
    /// All tables were rewritten without the left-out entries.
    pub renumbered: bool,
}

/// The key of a kept entry. The spool does not contain [`EntryVersion::newer`].
#[derive(Debug, Clone, Copy)]
pub struct SpooledKey {
    pub dn: Hash,
    pub key: EntryVersion,
    pub position: u32,
}

impl SpooledKey {
    fn append_to(self, spool: &mut Spool) -> Result<()> {
        let [high, low] = self.dn.map(u64::to_le_bytes);
        let [uuid, csn] = [self.key.uuid, self.key.csn].map(u128::to_le_bytes);
        spool.append_parts(&[&high, &low, &uuid, &csn, &self.position.to_le_bytes()])
    }

    fn read(bytes: &[u8]) -> Self {
        let number = |at: usize| bytes[at..].first_chunk().copied().map(u128::from_le_bytes).unwrap_or_default();
        #[allow(clippy::cast_possible_truncation, reason = "the two halves")]
        let dn = [number(0) as u64, (number(0) >> 64) as u64];
        let position = bytes[48..].first_chunk().copied().map(u32::from_le_bytes);
        let key = EntryVersion { uuid: number(16), csn: number(32), newer: false };
        Self { dn, key, position: position.unwrap_or_default() }
    }
}

impl SeenEntries {
    pub fn new(temp: &TempStorage, head: Option<PathBuf>) -> Self {
        Self {
            keys: temp.spool(16),
            questions: temp.spool(64),
            head,
            expected: FxHashMap::default(),
            doubtful: FxHashSet::default(),
            skipped: Vec::new(),
            confirmed: FxHashMap::default(),
            second_pass: None,
            left_out: Vec::new(),
            superseded: 0,
            dropped: 0,
            renumbered: false,
        }
    }

    /// Adds a chunk. Returns for each of its entries whether it is kept.
    pub fn add(&mut self, chunk: &Encoded) -> Result<Vec<bool>> {
        let is_head = chunk.path.as_deref().is_some_and(|path| Some(path) == self.head.as_ref());
        let comes_again = is_head || self.second_pass.is_some();
        for parent in &chunk.parents {
            let hash = parent.hash.map(u64::to_le_bytes).concat();
            self.questions.append(&hash)?;
        }
        chunk.kept.iter().zip(&chunk.keys).map(|(kept, key)| self.admits(kept, *key, comes_again)).collect()
    }

    fn admits(&mut self, kept: &EncodedEntry, key: EntryVersion, comes_again: bool) -> Result<bool> {
        let name = (key.uuid, kept.hash);
        if key.uuid != 0 && !self.expected.is_empty() {
            if let Some(first) = self.expected.get(&name) {
                if self.second_pass.is_some() {
                    self.confirmed.insert(*first, kept.position);
                }
                self.skipped.push(kept.position);
                return Ok(false);
            }
        }
        if key.uuid != 0 && comes_again {
            self.expected.insert(name, kept.position);
        }
        if key.uuid != 0 && key.newer {
            self.doubtful.insert(key.uuid);
        }
        SpooledKey { dn: kept.hash, key, position: kept.position }.append_to(&mut self.keys)?;
        Ok(true)
    }

    /// If the entry at `position` was read in the second pass, returns its position there.
    pub fn read_again(&self, position: u32) -> Option<u32> {
        let itself = self.second_pass.filter(|first| position >= *first).map(|_| position);
        self.confirmed.get(&position).copied().or(itself)
    }

    fn leave_out(&mut self, superseded: &Superseded, lost: &FxHashSet<u32>) {
        self.left_out = superseded.positions().chain(lost.iter().copied()).collect();
        self.left_out.sort_unstable();
        (self.superseded, self.dropped) = ((self.left_out.len() - lost.len()) as u64, lost.len() as u64);
    }

    /// Passes the keys of all kept entries to `see`.
    pub fn each_key(&self, mut see: impl FnMut(&SpooledKey) -> Result<()>) -> Result<()> {
        each(self.keys.reader(), |bytes| see(&SpooledKey::read(bytes)))
    }

    /// Starts the second pass at `position`. `uuids` lists every entry that is read again.
    fn begin_again(&mut self, uuids: FxHashSet<u128>, position: u32) -> Result<()> {
        let mut expected = std::mem::take(&mut self.expected);
        self.each_key(|entry| {
            if uuids.contains(&entry.key.uuid) {
                expected.insert((entry.key.uuid, entry.dn), entry.position);
            }
            Ok(())
        })?;
        self.expected = expected;
        self.doubtful.extend(uuids);
        self.second_pass.get_or_insert(position);
        Ok(())
    }

    /// Returns the tuples of all entries and questions, like [`EncodedInput::tuples`].
    fn tuples(&self, temp: &TempStorage) -> Result<TupleSorter<[u64; 3]>> {
        let mut tuples = temp.tuples();
        self.each_key(|entry| tuples.push([entry.dn[0], entry.dn[1], u64::from(entry.position)]))?;
        let mut number = 0;
        each(self.questions.reader(), |bytes| {
            let half = |at: usize| bytes[at..].first_chunk().copied().map(u64::from_le_bytes).unwrap_or_default();
            let hash = [half(0), half(8)];
            if hash != ROOT {
                tuples.push([hash[0], hash[1], ASKED | number])?;
            }
            number += 1;
            Ok(())
        })?;
        Ok(tuples)
    }
}

fn each(mut reader: SpoolReader<'_>, mut see: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    while let Some(bytes) = reader.next()? {
        see(bytes)?;
    }
    Ok(())
}

impl Build<'_> {
    /// Joins entries with their parents. Reads from the server again until no orphans remain or `read_again` returns no
    /// file.
    pub(crate) fn resolve(
        &self,
        postings: &extsort::Postings,
        gathered: &mut EncodedInput,
        LiveSource { read_again, renamed, .. }: LiveSource<'_>,
    ) -> Result<ParentTable> {
        // Too many rejected entries end the build before the server is read again.
        self.write_rejects(gathered)?;
        self.read_on(postings, gathered, read_again(Vec::new())?)?;
        let mut tuples = gathered.take_tuples(&self.temp);
        loop {
            let mut joined = join(tuples, &gathered.askers)?;
            let superseded = Superseded::find(gathered, &joined, self.chunks.repeated(), &self.temp)?;
            superseded.leave_out(&mut joined);
            let orphans = orphans::find(gathered, &joined, &superseded)?;
            let paths = if orphans.is_empty() { Vec::new() } else { read_again(orphans)? };
            if paths.is_empty() {
                let uuids = superseded.renamed();
                if !uuids.is_empty() {
                    renamed(uuids)?;
                }
                let lost = orphans::without_path_to_suffix(gathered, &mut joined, &superseded)?;
                if let Some(live) = &mut gathered.live {
                    live.leave_out(&superseded, &lost);
                }
                return Ok(joined);
            }
            self.read_on(postings, gathered, paths)?;
            let Some(live) = &gathered.live else { return Ok(joined) };
            tuples = live.tuples(&self.temp)?;
        }
    }

    /// Reads the entries of the second pass from `paths`, if there are any.
    fn read_on(&self, postings: &extsort::Postings, gathered: &mut EncodedInput, paths: Vec<PathBuf>) -> Result<()> {
        let position = u32::try_from(gathered.positions()).unwrap_or(u32::MAX);
        let uuids = uuids(&paths, self.shared.counters)?;
        if let (Some(live), false) = (&mut gathered.live, paths.is_empty()) {
            live.begin_again(uuids, position)?;
            self.chunks.add(paths.into_iter().map(Source::Path).collect());
            self.read_available(postings, gathered)?;
        }
        Ok(())
    }
}

/// Returns the entryUUIDs of all records.
fn uuids(paths: &[PathBuf], stop: &Counters) -> Result<FxHashSet<u128>> {
    let (mut uuids, uncounted) = (FxHashSet::default(), Counters::default());
    for path in paths {
        stop.check()?;
        each_record(Input::from_path(path, &uncounted)?, &uncounted, |record| {
            uuids.extend(uuid(record)?);
            Ok(())
        })?;
    }
    Ok(uuids)
}

fn uuid(record: &Record<'_>) -> Result<Option<u128>> {
    for field in record.entry()?.fields {
        let field = field?;
        if field.is("entryUUID") {
            let text = String::from_utf8_lossy(&field.value()?).replace('-', "");
            return Ok(u128::from_str_radix(&text, 16).ok());
        }
    }
    Ok(None)
}
