//! Where two trees differ: the subtrees that hang on the entries directly below the base.

use rustc_hash::FxHashMap;

use crate::digest::{Digest, EntryDigest};
use crate::fingerprint::Checksum;
use crate::name::{ParsedDn, parent_text, rdns};

/// Entries below one that is directly below the base; or, without a name, the base and those that are directly
/// below it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subtree {
    pub dn: Option<String>,
    pub left: SubtreeTotals,
    pub right: SubtreeTotals,
    /// Entries that differ.
    pub changes: u64,
}

/// What one tree has of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SubtreeTotals {
    pub entries: u64,
    pub checksum: Checksum,
}

/// Sorts entries by subtree.
#[derive(Debug)]
pub(crate) struct Subtrees<'a> {
    /// RDNs of the base.
    base: usize,
    /// Subtrees by the text of parents, and by their own keys.
    parents: FxHashMap<&'a [u8], usize>,
    keys: FxHashMap<Vec<u8>, usize>,
    found: Vec<Subtree>,
}

impl<'a> Subtrees<'a> {
    pub(crate) fn of(left: &'a Digest, right: &'a Digest) -> Self {
        let names = left.names().chain(right.names());
        let base = names.map(|dn| rdns(dn).count()).min().unwrap_or(0);
        let (parents, keys) = (FxHashMap::default(), FxHashMap::default());
        let mut all = Self { base, parents, keys, found: Vec::new() };
        left.rows.iter().for_each(|row| all.at(left.dn(row)).left.add(row));
        right.rows.iter().for_each(|row| all.at(right.dn(row)).right.add(row));
        all
    }

    /// An entry differs.
    pub(crate) fn see(&mut self, dn: &'a [u8]) {
        self.at(dn).changes += 1;
    }

    /// Those that differ, the most different first.
    pub(crate) fn finish(self, limit: usize) -> Vec<Subtree> {
        let mut found: Vec<_> = self.found.into_iter().filter(|one| one.changes > 0).collect();
        found.sort_by(|a, b| b.changes.cmp(&a.changes).then_with(|| a.dn.cmp(&b.dn)));
        found.truncate(limit);
        found
    }

    fn at(&mut self, dn: &'a [u8]) -> &mut Subtree {
        let parent = parent_text(dn);
        let at = match self.parents.get(parent) {
            Some(&at) => at,
            None => self.learn(parent),
        };
        &mut self.found[at]
    }

    fn learn(&mut self, parent: &'a [u8]) -> usize {
        let depth = rdns(parent).count();
        let top = depth.checked_sub(self.base + 1).map(|above| skip(parent, above));
        let key = top.map_or(Vec::new(), |top| ParsedDn::new(top).key().to_vec());
        let at = *self.keys.entry(key).or_insert(self.found.len());
        if at == self.found.len() {
            let dn = top.map(|top| String::from_utf8_lossy(top).into_owned());
            self.found.push(Subtree { dn, ..Subtree::default() });
        }
        self.parents.insert(parent, at);
        at
    }
}

impl SubtreeTotals {
    fn add(&mut self, row: &EntryDigest) {
        self.entries += 1;
        self.checksum.add(row.print().combined());
    }
}

/// A DN without its first RDNs.
fn skip(dn: &[u8], count: usize) -> &[u8] {
    (0..count).fold(dn, |dn, _| parent_text(dn))
}
