//! Reads the LDIF twice: first to find the DNs of all parents; then to copy the parents' entries to the file of shared
//! entries, and to find where each slice begins.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use backmdb::MOST_ENTRIES;
use common::{Code, Counters, Error, Result};
use ldif::{Output, Record};
use rustc_hash::FxHashMap;

use super::key::{Key, Keys};
use super::walk::{RecordLocation, walk};

/// Maximum number of sampled locations. Beyond that, every second sample is dropped.
const MOST_SAMPLES: usize = 8192;

/// The beginning of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SliceStart {
    pub file: usize,
    /// Offset in uncompressed bytes.
    pub offset: u64,
    pub line: u64,
    /// Number of leaf entries before the slice.
    pub before: u64,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Number of entries with children, which are in the file of shared entries.
    pub shared: u64,
    /// Number of all other entries.
    pub leaves: u64,
    /// Number of parents without an entry in the input, as far as DNs can be compared without a schema.
    pub unknown: u64,
    pub cuts: Vec<SliceStart>,
}

/// Writes the shared entries of `paths` to `shared_path`, parents first, and chooses up to `shards` slices.
pub fn plan(
    paths: &[PathBuf],
    suffixes: &[String],
    shards: usize,
    shared_path: &Path,
    counters: &Counters,
) -> Result<Plan> {
    let mut keys = Keys::new(suffixes);
    let mut parents = parents(paths, &mut keys, counters)?;
    let mut shared = Shared::create(shared_path)?;
    let mut samples = LeafSamples::default();
    walk(paths, RecordLocation::START, counters, |record, place| {
        counters.add(1, 0);
        let key = keys.of(&record.entry()?.dn);
        match parents.get_mut(&key.own) {
            Some(exists) => {
                *exists = true;
                shared.add(key, record)?;
            }
            None => samples.add(place),
        }
        Ok(true)
    })?;
    let unknown = parents.values().filter(|exists| !**exists).count() as u64;
    let (shared, leaves) = (shared.finish()?, samples.leaves);
    require_numbers(shared, leaves)?;
    Ok(Plan { shared, leaves, unknown, cuts: samples.cuts(shards) })
}

/// Refuses more entries than a build accepts, because a slice counts entries in 32 bits.
fn require_numbers(shared: u64, leaves: u64) -> Result<()> {
    let entries = shared.saturating_add(leaves);
    if entries > MOST_ENTRIES {
        return Err(Error::new(Code::TooMany, format!("{entries} entries, at most {MOST_ENTRIES}")));
    }
    Ok(())
}

/// Returns the keys of all parents. The value is false; the caller sets it to true if the input has the parent's entry.
fn parents(paths: &[PathBuf], keys: &mut Keys, counters: &Counters) -> Result<FxHashMap<u64, bool>> {
    let (mut parents, mut last) = (FxHashMap::default(), None);
    walk(paths, RecordLocation::START, counters, |record, _| {
        let parent = keys.of(&record.entry()?.dn).parent;
        if parent != last {
            last = parent;
            parents.extend(parent.map(|key| (key, false)));
        }
        Ok(true)
    })?;
    Ok(parents)
}

/// Locations of leaf entries at even distances.
struct LeafSamples {
    starts: Vec<SliceStart>,
    /// Distance between samples, in leaf entries.
    every: u64,
    leaves: u64,
}

impl Default for LeafSamples {
    fn default() -> Self {
        Self { starts: Vec::new(), every: 1, leaves: 0 }
    }
}

impl LeafSamples {
    fn add(&mut self, place: RecordLocation) {
        if self.leaves % self.every == 0 {
            if self.starts.len() == MOST_SAMPLES {
                self.every *= 2;
                self.starts = self.starts.iter().step_by(2).copied().collect();
            }
            let RecordLocation { file, offset, line } = place;
            self.starts.push(SliceStart { file, offset, line, before: self.leaves });
        }
        self.leaves += 1;
    }

    fn cuts(&self, shards: usize) -> Vec<SliceStart> {
        let mut cuts: Vec<SliceStart> = (0..shards as u64)
            .filter_map(|number| {
                let target = u128::from(number) * u128::from(self.leaves) / shards as u128;
                let after = self.starts.partition_point(|mark| u128::from(mark.before) <= target);
                self.starts.get(after.checked_sub(1)?).copied()
            })
            .collect();
        cuts.dedup();
        cuts
    }
}

/// A record in the file of shared entries.
#[derive(Debug, Clone, Copy)]
struct SharedEntry {
    key: Key,
    at: u64,
    size: usize,
}

/// The file of shared entries while it is written.
#[derive(Debug)]
struct Shared {
    path: PathBuf,
    output: Output,
    kept: Vec<SharedEntry>,
    size: u64,
    text: Vec<u8>,
}

impl Shared {
    fn create(path: &Path) -> Result<Self> {
        let output = Output::create(path, 0)?;
        Ok(Self { path: path.to_path_buf(), output, kept: Vec::new(), size: 0, text: Vec::new() })
    }

    fn add(&mut self, key: Key, record: &Record<'_>) -> Result<()> {
        self.text.clear();
        self.text.extend_from_slice(record.bytes);
        self.text.push(b'\n');
        self.kept.push(SharedEntry { key, at: self.size, size: self.text.len() });
        self.size += self.text.len() as u64;
        self.output.write(&self.text)
    }

    /// Completes the file, and sorts parents before their children. Returns the number of shared entries.
    fn finish(self) -> Result<u64> {
        self.output.finish()?;
        let order = parents_first(&self.kept);
        if !order.iter().is_sorted() {
            rewrite(&self.path, &self.kept, &order)?;
        }
        Ok(self.kept.len() as u64)
    }
}

fn rewrite(path: &Path, kept: &[SharedEntry], order: &[usize]) -> Result<()> {
    let new = path.with_extension("sorted");
    let (old, mut output) = (File::open(path)?, Output::create(&new, 0)?);
    let mut text = Vec::new();
    for entry in order.iter().map(|&at| kept[at]) {
        text.resize(entry.size, 0);
        old.read_exact_at(&mut text, entry.at)?;
        output.write(&text)?;
    }
    output.finish()?;
    Ok(std::fs::rename(new, path)?)
}

/// Returns the indexes of `kept` in the order of the input, except that a parent comes before its first descendant,
/// because slapadd gives the parent the lower ID.
fn parents_first(kept: &[SharedEntry]) -> Vec<usize> {
    let mut by_key = FxHashMap::default();
    for (at, entry) in kept.iter().enumerate() {
        by_key.entry(entry.key.own).or_insert(at);
    }
    let (mut order, mut placed) = (Vec::with_capacity(kept.len()), vec![false; kept.len()]);
    let mut chain = Vec::new();
    for at in 0..kept.len() {
        let mut next = Some(at);
        while let Some(here) = next.filter(|here| !placed[*here]) {
            placed[here] = true;
            chain.push(here);
            next = kept[here].key.parent.and_then(|parent| by_key.get(&parent).copied());
        }
        order.extend(chain.drain(..).rev());
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_entries_as_a_build_takes_and_no_more() {
        require_numbers(7, MOST_ENTRIES - 7).unwrap();
        for (shared, leaves) in [(7, MOST_ENTRIES - 6), (u64::MAX, 2), (0, 1 << 32)] {
            assert_eq!(require_numbers(shared, leaves).unwrap_err().code, Code::TooMany);
        }
    }

    #[test]
    fn slices_are_of_even_size() {
        for (leaves, shards) in [(10, 3), (100_000, 7), (50_000, 2), (3, 16), (0, 4)] {
            let mut marks = LeafSamples::default();
            for line in 1..=leaves {
                marks.add(RecordLocation { file: 0, offset: line, line });
            }
            let cuts = marks.cuts(shards);
            assert_eq!(cuts.len(), shards.min(usize::try_from(leaves).unwrap()));
            let ends = cuts.iter().skip(1).map(|cut| cut.before).chain([leaves]);
            for (cut, end) in cuts.iter().zip(ends) {
                assert_eq!(cut.line, cut.before + 1);
                assert!(end - cut.before <= leaves / cuts.len() as u64 + 32);
                assert!(end > cut.before);
            }
        }
    }

    fn kept(keys: &[(u64, u64)]) -> Vec<SharedEntry> {
        let one = |&(own, parent)| Key { own, parent: (parent > 0).then_some(parent) };
        keys.iter().map(|pair| SharedEntry { key: one(pair), at: 0, size: 0 }).collect()
    }

    #[test]
    fn parents_go_before_their_first_descendant() {
        assert_eq!(parents_first(&kept(&[(1, 0), (2, 1), (3, 1)])), [0, 1, 2]);
        assert_eq!(parents_first(&kept(&[(4, 3), (1, 0), (3, 2), (2, 1)])), [1, 3, 2, 0]);
        // Duplicate names and cyclic parents must not loop forever.
        assert_eq!(parents_first(&kept(&[(1, 0), (1, 0), (5, 6), (6, 5)])), [0, 1, 3, 2]);
    }
}
