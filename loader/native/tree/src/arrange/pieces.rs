//! The files of an arrangement under construction.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use common::{InFile, Result};
use ldif::Output;

use crate::fingerprint::Totals;

/// Number of threads that compress leaves, which are most of the data. The output does not depend on this number.
const LEAF_THREADS: u32 = 1;

#[derive(Debug)]
pub(super) struct Pieces {
    directory: PathBuf,
    suffix: &'static str,
    leaf: Option<(Output, String, Totals)>,
    /// One file for each depth, so that interior entries need no memory.
    depths: BTreeMap<usize, (PathBuf, Output)>,
    interior: Totals,
    /// Finished files of leaves.
    done: Vec<(String, Totals)>,
}

impl Pieces {
    pub(super) fn new(directory: &Path, compress: bool) -> Self {
        let suffix = if compress { "ldif.zst" } else { "ldif" };
        Self {
            directory: directory.to_path_buf(),
            suffix,
            leaf: None,
            depths: BTreeMap::new(),
            interior: Totals::default(),
            done: Vec::new(),
        }
    }

    /// Whether a file has the format of the output and can be linked unchanged.
    pub(super) fn fits(&self, path: &Path) -> bool {
        path.as_os_str().as_encoded_bytes().ends_with(self.suffix.as_bytes())
    }

    /// Turns a finished file into the shard by a hard link, or a copy if that is impossible. Returns its new name.
    pub(super) fn take(&mut self, path: &Path, shard: usize, tally: Totals) -> Result<String> {
        let target = self.shard(shard);
        let linked = fs::hard_link(path, &target).or_else(|_| copy(path, &target));
        linked.in_file(Some(&target))?;
        self.done.push((self.name(shard), tally));
        Ok(self.name(shard))
    }

    fn shard(&self, number: usize) -> PathBuf {
        self.directory.join(self.name(number))
    }

    fn name(&self, number: usize) -> String {
        format!("{number:04}.{}", self.suffix)
    }

    /// Appends an entry to the file of the current shard, which is created for the first leaf.
    pub(super) fn leaf(&mut self, shard: usize, text: &[u8], print: u128) -> Result<()> {
        if self.leaf.is_none() {
            let output = Output::create(&self.shard(shard), LEAF_THREADS)?;
            self.leaf = Some((output, self.name(shard), Totals::default()));
        }
        let Some((output, _, tally)) = &mut self.leaf else { return Ok(()) };
        tally.add(print);
        output.write(text)
    }

    pub(super) fn end_shard(&mut self) -> Result<()> {
        let Some((output, name, tally)) = self.leaf.take() else { return Ok(()) };
        self.done.push((name, tally));
        output.finish().map(drop)
    }

    pub(super) fn interior(&mut self, depth: usize, text: &[u8], print: u128) -> Result<()> {
        self.interior.add(print);
        let (_, output) = match self.depths.entry(depth) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let path = self.directory.join(format!(".depth-{depth:04}.{}", self.suffix));
                let output = Output::create(&path, 0)?;
                place.insert((path, output))
            }
        };
        output.write(text)
    }

    /// Concatenates the files of all depths (zstd allows several frames in a file) and syncs everything. Returns all
    /// files in the order of their names, with their totals.
    pub(super) fn finish(self) -> Result<Vec<(String, Totals)>> {
        let mut paths = Vec::new();
        for (path, output) in self.depths.into_values() {
            output.finish()?;
            paths.push(path);
        }
        let name = format!("0000-interior.{}", self.suffix);
        let whole = self.directory.join(&name);
        let join = || -> io::Result<()> {
            if let Some(first) = paths.first() {
                fs::rename(first, &whole)?;
                append(&paths[1..], &whole)?;
            }
            File::open(&self.directory)?.sync_all()
        };
        join().in_file(Some(&whole))?;
        let mut files = self.done;
        if !paths.is_empty() {
            files.push((name, self.interior));
        }
        files.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        Ok(files)
    }
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    File::open(to)?.sync_all()
}

fn append(paths: &[PathBuf], whole: &Path) -> io::Result<()> {
    let mut out = OpenOptions::new().append(true).open(whole)?;
    for path in paths {
        io::copy(&mut File::open(path)?, &mut out)?;
        fs::remove_file(path)?;
    }
    out.sync_all()
}
