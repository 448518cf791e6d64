//! The file of shared entries: written in the order of the input, and once more where that has children
//! before their parents.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use common::Result;
use ldif::{Output, Record};
use rustc_hash::FxHashMap;

use super::key::Key;

/// A shared entry in the file.
#[derive(Debug, Clone, Copy)]
struct SharedEntry {
    key: Key,
    at: u64,
    size: usize,
}

#[derive(Debug)]
pub struct Shared {
    path: PathBuf,
    output: Output,
    kept: Vec<SharedEntry>,
    size: u64,
    text: Vec<u8>,
}

impl Shared {
    pub fn create(path: &Path) -> Result<Self> {
        let output = Output::create(path, 0)?;
        Ok(Self { path: path.to_path_buf(), output, kept: Vec::new(), size: 0, text: Vec::new() })
    }

    pub fn add(&mut self, key: Key, record: &Record<'_>) -> Result<()> {
        self.text.clear();
        self.text.extend_from_slice(record.bytes);
        self.text.push(b'\n');
        self.kept.push(SharedEntry { key, at: self.size, size: self.text.len() });
        self.size += self.text.len() as u64;
        self.output.write(&self.text)
    }

    /// How many there are.
    pub fn finish(self) -> Result<u64> {
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
    for one in order.iter().map(|&at| kept[at]) {
        text.resize(one.size, 0);
        old.read_exact_at(&mut text, one.at)?;
        output.write(&text)?;
    }
    output.finish()?;
    Ok(std::fs::rename(new, path)?)
}

/// The input's order, but for parents that come late: they go before their first descendant, as slapadd
/// numbers them.
fn parents_first(kept: &[SharedEntry]) -> Vec<usize> {
    let mut by_key = FxHashMap::default();
    for (at, one) in kept.iter().enumerate() {
        by_key.entry(one.key.own).or_insert(at);
    }
    let (mut order, mut taken) = (Vec::with_capacity(kept.len()), vec![false; kept.len()]);
    let mut way = Vec::new();
    for at in 0..kept.len() {
        let mut next = Some(at);
        while let Some(here) = next.filter(|here| !taken[*here]) {
            taken[here] = true;
            way.push(here);
            next = kept[here].key.parent.and_then(|parent| by_key.get(&parent).copied());
        }
        order.extend(way.drain(..).rev());
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(keys: &[(u64, u64)]) -> Vec<SharedEntry> {
        let one = |&(own, parent)| Key { own, parent: (parent > 0).then_some(parent) };
        keys.iter().map(|pair| SharedEntry { key: one(pair), at: 0, size: 0 }).collect()
    }

    #[test]
    fn parents_go_before_their_first_descendant() {
        assert_eq!(parents_first(&kept(&[(1, 0), (2, 1), (3, 1)])), [0, 1, 2]);
        assert_eq!(parents_first(&kept(&[(4, 3), (1, 0), (3, 2), (2, 1)])), [1, 3, 2, 0]);
        // One that is there twice, and names that make a circle, end as well.
        assert_eq!(parents_first(&kept(&[(1, 0), (1, 0), (5, 6), (6, 5)])), [0, 1, 3, 2]);
    }
}
