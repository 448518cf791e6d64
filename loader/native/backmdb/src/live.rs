//! A build from a live server: an entry may come twice, or its parent may be gone.
//!
//! An entry that is read again is recognised by its entryUUID. If its DN is unchanged, the copy already written stays:
//! any change in between is newer than the claimed contextCSN, and syncrepl sends it.
//!
//! slapd walks a subtree by names, so an entry that is renamed meanwhile may be read twice. Its second copy is newer
//! than the claimed contextCSN. Entries below a renamed container are not newer; they are read again. So no search for
//! duplicate entryUUIDs among all entries is needed.

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

/// Bytes of a spooled key.
const SIZE: usize = 52;

/// Reads the server again. Gets the orphans, none at the first call, and returns LDIF files with the entries read
/// since. If it returns no file, the orphans are left out.
pub type Reread<'a> = dyn Fn(Vec<Orphan>) -> Result<Vec<PathBuf>> + Sync + 'a;

/// Asks the server about entryUUIDs with several DNs; fails unless each is one renamed entry.
pub type Renamed<'a> = dyn Fn(Vec<String>) -> Result<()> + Sync + 'a;

/// What a live build remembers of its entries.
pub struct SeenEntries {
    keys: Spool,
    /// Hash of the parent, by question number.
    questions: Spool,
    /// The file that is read first; its entries come again later.
    head: Option<PathBuf>,
    /// Positions of entries that may come again, by entryUUID and DN hash.
    known: FxHashMap<(u128, Hash), u32>,
    /// entryUUIDs that may belong to more than one position.
    pub doubtful: FxHashSet<u128>,
    /// Positions without an entry, because the entry was already there.
    pub skipped: Vec<u32>,
    /// Entries with the same DN in the second pass: their position -> that of the second copy.
    pub confirmed: FxHashMap<u32, u32>,
    /// The first position of the second pass.
    pub again: Option<u32>,
    /// Ascending positions of entries that are left out although their values are written.
    pub left_out: Vec<u32>,
    /// How many of them have a newer copy, and how many have no parent.
    pub overtaken: u64,
    pub dropped: u64,
    /// All tables were rewritten without them.
    pub renumbered: bool,
}

/// A spooled key.
#[derive(Debug, Clone, Copy)]
pub struct SpooledKey {
    pub dn: Hash,
    pub key: EntryVersion,
    pub position: u32,
}

impl SpooledKey {
    fn to_bytes(self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        bytes[..8].copy_from_slice(&self.dn[0].to_le_bytes());
        bytes[8..16].copy_from_slice(&self.dn[1].to_le_bytes());
        bytes[16..32].copy_from_slice(&self.key.uuid.to_le_bytes());
        bytes[32..48].copy_from_slice(&self.key.csn.to_le_bytes());
        bytes[48..].copy_from_slice(&self.position.to_le_bytes());
        bytes
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
            known: FxHashMap::default(),
            doubtful: FxHashSet::default(),
            skipped: Vec::new(),
            confirmed: FxHashMap::default(),
            again: None,
            left_out: Vec::new(),
            overtaken: 0,
            dropped: 0,
            renumbered: false,
        }
    }

    /// Returns which entries of the chunk are kept.
    pub fn add(&mut self, chunk: &Encoded) -> Result<Vec<bool>> {
        let head = chunk.path.as_deref().is_some_and(|path| Some(path) == self.head.as_ref());
        let learns = head || self.again.is_some();
        for parent in &chunk.parents {
            let hash = parent.hash.map(u64::to_le_bytes).concat();
            self.questions.append(&hash)?;
        }
        chunk.kept.iter().zip(&chunk.keys).map(|(kept, key)| self.admits(kept, *key, learns)).collect()
    }

    fn admits(&mut self, kept: &EncodedEntry, key: EntryVersion, learns: bool) -> Result<bool> {
        let name = (key.uuid, kept.hash);
        if key.uuid != 0 && !self.known.is_empty() {
            if let Some(before) = self.known.get(&name) {
                if self.again.is_some() {
                    self.confirmed.insert(*before, kept.position);
                }
                self.skipped.push(kept.position);
                return Ok(false);
            }
        }
        if key.uuid != 0 && learns {
            self.known.insert(name, kept.position);
        }
        if key.uuid != 0 && key.newer {
            self.doubtful.insert(key.uuid);
        }
        let met = SpooledKey { dn: kept.hash, key, position: kept.position };
        self.keys.append(&met.to_bytes())?;
        Ok(true)
    }

    /// Returns the position at which the entry of `position` was read again, if it was.
    pub fn read_again(&self, position: u32) -> Option<u32> {
        let late = self.again.filter(|first| position >= *first).map(|_| position);
        self.confirmed.get(&position).copied().or(late)
    }

    fn leave_out(&mut self, overtaken: &Superseded, lost: &FxHashSet<u32>) {
        self.left_out = overtaken.positions().chain(lost.iter().copied()).collect();
        self.left_out.sort_unstable();
        (self.overtaken, self.dropped) = (overtaken.count(), lost.len() as u64);
    }

    /// Passes the keys of all kept entries to `see`.
    pub fn each_key(&self, mut see: impl FnMut(&SpooledKey) -> Result<()>) -> Result<()> {
        each(self.keys.reader(), |bytes| see(&SpooledKey::read(bytes)))
    }

    /// Starts the second pass. `uuids` lists every entry that is read again.
    fn begin_again(&mut self, uuids: FxHashSet<u128>, position: u32) -> Result<()> {
        let mut known = std::mem::take(&mut self.known);
        self.each_key(|met| {
            if uuids.contains(&met.key.uuid) {
                known.insert((met.key.uuid, met.dn), met.position);
            }
            Ok(())
        })?;
        self.known = known;
        self.doubtful.extend(uuids);
        self.again.get_or_insert(position);
        Ok(())
    }

    /// Returns the tuples of all entries and questions, as [`EncodedInput`] collects them.
    fn tuples(&self, temp: &TempStorage) -> Result<TupleSorter<[u64; 3]>> {
        let mut tuples = temp.tuples();
        self.each_key(|met| tuples.push([met.dn[0], met.dn[1], u64::from(met.position)]))?;
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
    /// Joins entries with parents, and has the server read again until no orphans are left or nothing more can be read.
    pub(crate) fn resolve(
        &self,
        postings: &extsort::Postings,
        gathered: &mut EncodedInput,
        LiveSource { read_again, renamed, .. }: LiveSource<'_>,
    ) -> Result<ParentTable> {
        self.expect_few_rejects(gathered)?;
        self.read_on(postings, gathered, read_again(Vec::new())?)?;
        let mut tuples = gathered.take_tuples(&self.temp);
        loop {
            let mut joined = join(tuples, &gathered.askers)?;
            let overtaken = Superseded::find(gathered, &joined, self.chunks.repeated(), &self.temp)?;
            overtaken.leave_out(&mut joined);
            let orphans = orphans::find(gathered, &joined, &overtaken)?;
            let paths = if orphans.is_empty() { Vec::new() } else { read_again(orphans)? };
            if paths.is_empty() {
                expect_renamed(&overtaken, renamed)?;
                let lost = orphans::without_path_to_suffix(gathered, &mut joined, &overtaken)?;
                if let Some(live) = &mut gathered.live {
                    live.leave_out(&overtaken, &lost);
                }
                return Ok(joined);
            }
            self.read_on(postings, gathered, paths)?;
            let Some(live) = &gathered.live else { return Ok(joined) };
            tuples = live.tuples(&self.temp)?;
        }
    }

    /// Adds the entries of the second pass.
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

/// Asks about entries that were left out in favour of a copy with another DN.
fn expect_renamed(overtaken: &Superseded, ask: &Renamed<'_>) -> Result<()> {
    let renamed = overtaken.renamed();
    if renamed.is_empty() { Ok(()) } else { ask(renamed) }
}

/// Returns the entryUUIDs of all records.
fn uuids(paths: &[PathBuf], stop: &Counters) -> Result<FxHashSet<u128>> {
    let (mut found, uncounted) = (FxHashSet::default(), Counters::default());
    for path in paths {
        stop.check()?;
        each_record(Input::from_path(path, &uncounted)?, &uncounted, |record| {
            found.extend(uuid(record)?);
            Ok(())
        })?;
    }
    Ok(found)
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
