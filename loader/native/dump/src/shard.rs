//! Writes the numbered LDIF files of an export; and keeps entries with a lower ID than their parent, as after a rename
//! (modrdn) to a newer parent, and all entries below them.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use common::{Counters, Result, lock};
use extsort::RecordSorter;
use ldif::Output;
use tree::fingerprint::Totals;

use crate::parents::ParentDn;

/// The size of one write, in bytes.
const CHUNK: usize = 256 << 10;

/// The directory of the files, and whether they are compressed.
#[derive(Debug, Clone)]
pub struct ShardTarget {
    pub directory: PathBuf,
    /// Compress with zstd, and append `.zst` to the file names.
    pub compress: bool,
}

impl ShardTarget {
    /// File names sort in the order of their numbers.
    pub(crate) fn name(&self, number: usize) -> String {
        let suffix = if self.compress { "ldif.zst" } else { "ldif" };
        format!("{number:04}.{suffix}")
    }
}

/// A file under way. It is created when the first data is written, so that a range without entries leaves no file.
#[derive(Debug)]
pub(crate) struct Shard {
    name: String,
    path: PathBuf,
    output: Option<Output>,
    pub(crate) text: Vec<u8>,
    /// Before compression.
    pub(crate) bytes: u64,
    pub(crate) tally: Totals,
}

/// A file that is complete and synced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    pub name: String,
    /// The 128-bit XXH3 checksum of the file, in hexadecimal.
    pub sum: String,
    /// Before compression.
    pub bytes: u64,
    pub tally: Totals,
}

impl Shard {
    pub(crate) fn new(directory: &Path, name: String) -> Self {
        let path = directory.join(&name);
        let text = Vec::with_capacity(CHUNK + (CHUNK >> 2));
        Self { name, path, output: None, text, bytes: 0, tally: Totals::default() }
    }

    /// Writes `text` if there is enough of it. The caller has appended complete entries only.
    #[inline]
    pub(crate) fn written(&mut self) -> Result<()> {
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

    /// Closes the file and waits until it is synced; `None` if there was no entry.
    pub(crate) fn finish(self) -> Result<Option<Finished>> {
        self.end()?.map(ClosingShard::wait).transpose()
    }

    /// Ends the file without waiting for the sync.
    pub(crate) fn end(mut self) -> Result<Option<ClosingShard>> {
        self.flush()?;
        let Some(output) = self.output else { return Ok(None) };
        let (name, bytes, tally) = (self.name, self.bytes, self.tally);
        Ok(Some(ClosingShard { name, bytes, tally, output: output.end()? }))
    }
}

/// A complete file that is being synced.
#[derive(Debug)]
pub(crate) struct ClosingShard {
    name: String,
    bytes: u64,
    tally: Totals,
    output: ldif::Closing,
}

impl ClosingShard {
    /// Waits until the file is synced.
    pub(crate) fn wait(self) -> Result<Finished> {
        let sum = self.output.wait()?;
        Ok(Finished { name: self.name, sum, bytes: self.bytes, tally: self.tally })
    }
}

/// The memory limit in bytes; what exceeds it goes to an unlinked temporary file.
const MEMORY: usize = 32 << 20;
/// The size of the LDIF of one file before compression, in bytes.
const PIECE: u64 = 64 << 20;

/// They are held back until all other entries are written, and then sorted by depth, so that parents come first.
#[derive(Debug)]
pub(crate) struct HeldBackEntries(Mutex<HeldBack>);

#[derive(Debug)]
struct HeldBack {
    /// `None` after [`HeldBackEntries::each`].
    sorter: Option<RecordSorter>,
    count: u64,
}

impl HeldBackEntries {
    /// `scratch` is the directory of the temporary file.
    pub(crate) fn new(scratch: &Path, counters: &Counters) -> Self {
        let sorter = RecordSorter::new(MEMORY, 1, scratch, counters.flag());
        Self(Mutex::new(HeldBack { sorter: Some(sorter), count: 0 }))
    }

    /// `text` is the entry as LDIF, `print` is its fingerprint.
    pub(crate) fn push(&self, id: u64, place: &ParentDn, print: u128, text: &[u8]) -> Result<()> {
        let kept = [&print.to_le_bytes(), text].concat();
        let mut held = lock(&self.0);
        held.count += 1;
        let prefix = u128::from(place.depth) << 64 | u128::from(id);
        held.sorter.as_mut().map_or(Ok(()), |sorter| sorter.push(prefix, &kept))
    }

    /// Writes the entries to files numbered from `number` on, and returns the number of entries and the files.
    pub(crate) fn write(
        &self,
        place: &ShardTarget,
        mut number: usize,
    ) -> Result<(u64, Vec<Finished>)> {
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

    /// Calls `see` with the fingerprint and the LDIF of each entry, parents first; returns the number of entries. A
    /// second call finds none.
    pub(crate) fn each(&self, mut see: impl FnMut(u128, &[u8]) -> Result<()>) -> Result<u64> {
        let mut held = lock(&self.0);
        let Some(sorter) = held.sorter.take() else { return Ok(0) };
        let mut records = sorter.finish()?;
        while let Some((_, kept)) = records.next()? {
            if let Some((print, text)) = kept.split_first_chunk() {
                see(u128::from_le_bytes(*print), text)?;
            }
        }
        Ok(held.count)
    }
}
