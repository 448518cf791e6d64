//! Where two trees differ: the subtrees that hang on the entries directly below the base.

use rustc_hash::FxHashMap;

use crate::digest::EntryDigest;
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

/// Beyond so many subtrees, entries of further ones are counted in none.
const MOST: usize = 1 << 17;
/// Parents that are cached at most.
const PARENTS: usize = 1 << 17;

/// Sorts entries by subtree.
#[derive(Debug)]
pub(crate) struct Subtrees {
    /// RDNs of the base.
    base: usize,
    /// Subtrees by the text of parents, and by their own keys.
    parents: FxHashMap<Vec<u8>, usize>,
    keys: FxHashMap<Vec<u8>, usize>,
    /// The first one has the entries that are counted in none.
    found: Vec<Subtree>,
}

impl Subtrees {
    pub(crate) fn new(base: usize) -> Self {
        let (parents, keys) = (FxHashMap::default(), FxHashMap::default());
        Self { base, parents, keys, found: vec![Subtree::default()] }
    }

    /// Those that differ, the most different first.
    pub(crate) fn finish(self, limit: usize) -> Vec<Subtree> {
        let differing = self.found.into_iter().skip(1).filter(|one| one.changes > 0);
        let mut found: Vec<_> = differing.collect();
        found.sort_by(|a, b| b.changes.cmp(&a.changes).then_with(|| a.dn.cmp(&b.dn)));
        found.truncate(limit);
        found
    }

    /// That of an entry.
    pub(crate) fn at(&mut self, dn: &[u8]) -> &mut Subtree {
        let parent = parent_text(dn);
        let at = match self.parents.get(parent) {
            Some(&at) => at,
            None => self.learn(parent),
        };
        &mut self.found[at]
    }

    fn learn(&mut self, parent: &[u8]) -> usize {
        let depth = rdns(parent).count();
        let top = depth.checked_sub(self.base + 1).map(|above| skip(parent, above));
        let key = top.map_or(Vec::new(), |top| ParsedDn::new(top).key().to_vec());
        let at = match self.keys.get(&key) {
            Some(&at) => at,
            None if self.keys.len() == MOST => 0,
            None => {
                let dn = top.map(|top| String::from_utf8_lossy(top).into_owned());
                self.found.push(Subtree { dn, ..Subtree::default() });
                self.keys.insert(key, self.found.len() - 1);
                self.found.len() - 1
            }
        };
        if self.parents.len() == PARENTS {
            self.parents.clear();
        }
        self.parents.insert(parent.to_vec(), at);
        at
    }
}

impl SubtreeTotals {
    pub(crate) fn add(&mut self, row: &EntryDigest<'_>) {
        self.entries += 1;
        self.checksum.add(row.print().combined());
    }
}

/// A DN without its first RDNs.
fn skip(dn: &[u8], count: usize) -> &[u8] {
    (0..count).fold(dn, |dn, _| parent_text(dn))
}
