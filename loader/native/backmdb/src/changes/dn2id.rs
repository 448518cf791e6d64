//! Changes the DN tree: removes nodes from their old parents and inserts them under the new ones.
//!
//! First all nodes that moved or were deleted are removed, each with the rest of its subtree; then nodes are inserted,
//! parents first. So the result does not depend on the order in which names were given up and taken.

use std::collections::BTreeMap;

use common::WithCode;
use lmdbfile::TableReader;
use rustc_hash::{FxHashMap, FxHashSet};

use super::Sink;
use crate::encoded::{Hash, ROOT};
use crate::naming::{self, Suffixes};
use crate::verify::{read_node, wrong};
use crate::{Code, Error, Result};
use codec::dn2i;
use schema::Schema;

/// slapd accepts no DN with more RDNs (`SLAP_LDAPDN_MAXLEN` bytes).
const DEEPEST: usize = 8192;

/// A node as it is in the file.
#[derive(Debug, Clone)]
pub struct NodeBefore {
    pub parent: u64,
    pub normal: Box<[u8]>,
    pub pretty: Box<[u8]>,
}

/// A node as it will be.
#[derive(Debug, Clone, Copy)]
pub struct NodeAfter<'a> {
    pub id: u64,
    pub parent: u64,
    pub normal: &'a [u8],
    pub pretty: &'a [u8],
}

#[derive(Debug, Clone)]
struct ParentAndRdn {
    parent: u64,
    normal: Box<[u8]>,
    pretty: Box<[u8]>,
}

/// Why a node cannot be inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoParent {
    /// Another node, with this ID, has the name.
    Taken(u64),
    /// The node would be its own ancestor.
    Below,
}

pub struct Dn2idChanges<'r> {
    dn2i: TableReader<'r>,
    schema: &'r Schema,
    suffixes: &'r Suffixes,
    old: FxHashMap<u64, NodeBefore>,
    hashes: FxHashMap<u64, Hash>,
    /// Sizes of subtrees that differ from those in the file.
    counts: FxHashMap<u64, u64>,
    taken: FxHashSet<u64>,
    hanging: FxHashMap<u64, bool>,
    placed: FxHashMap<u64, ParentAndRdn>,
    by_name: FxHashMap<(u64, Box<[u8]>), u64>,
    /// IDs of parents by the hashes of their DNs.
    found: FxHashMap<Hash, u64>,
}

impl<'r> Dn2idChanges<'r> {
    pub fn new(dn2i: TableReader<'r>, schema: &'r Schema, suffixes: &'r Suffixes) -> Self {
        Self {
            dn2i,
            schema,
            suffixes,
            old: FxHashMap::default(),
            hashes: FxHashMap::default(),
            counts: FxHashMap::default(),
            taken: FxHashSet::default(),
            hanging: FxHashMap::default(),
            placed: FxHashMap::default(),
            by_name: FxHashMap::default(),
            found: FxHashMap::default(),
        }
    }

    /// Returns the node as it is in the file.
    pub fn old(&mut self, id: u64) -> Result<&NodeBefore> {
        if !self.old.contains_key(&id) {
            let record = self.dn2i.get(&id.to_ne_bytes())?;
            let record = record.ok_or_else(|| wrong(format!("entry {id} is not in dn2i")))?;
            let node = read_node(&record)?;
            let (normal, pretty) = (node.normal.into(), node.pretty.into());
            self.old.insert(id, NodeBefore { parent: node.id, normal, pretty });
        }
        Ok(&self.old[&id])
    }

    /// Returns the hash of the node's DN in the file.
    pub fn old_hash(&mut self, id: u64) -> Result<Hash> {
        let (mut chain, mut at) = (Vec::new(), id);
        while at != 0 && !self.hashes.contains_key(&at) {
            if chain.len() > DEEPEST {
                return Err(endless(id));
            }
            chain.push(at);
            at = self.old(at)?.parent;
        }
        let mut hash = if at == 0 { ROOT } else { self.hashes[&at] };
        for id in chain.into_iter().rev() {
            hash = naming::hash(hash, &self.old(id)?.normal);
            self.hashes.insert(id, hash);
        }
        Ok(hash)
    }

    fn parent(&mut self, id: u64) -> Result<Option<u64>> {
        if let Some(placed) = self.placed.get(&id) {
            return Ok(Some(placed.parent));
        }
        if self.taken.contains(&id) { Ok(None) } else { self.old(id).map(|old| Some(old.parent)) }
    }

    /// Returns the number of entries in the subtree, including its root.
    pub fn count(&mut self, id: u64) -> Result<u64> {
        if let Some(count) = self.counts.get(&id) {
            return Ok(*count);
        }
        let record = self.listed(id)?;
        read_node(&record)?.child.ok_or_else(|| wrong(format!("entry {id}: no child in its parent's list")))
    }

    /// Returns the node's record in its parent's list, from the file.
    fn listed(&mut self, id: u64) -> Result<Vec<u8>> {
        let (mut like, old) = (Vec::new(), self.old(id)?.clone());
        dn2i::child(&mut like, &old.normal, &old.pretty, id, 0);
        let found = self.dn2i.find(&old.parent.to_ne_bytes(), &like)?;
        found.ok_or_else(|| wrong(format!("entry {id} is not in its parent's list")))
    }

    /// Adds `by` to subtree sizes from `id` up to the root or a removed node; returns whether the root was reached.
    fn climb(&mut self, id: u64, by: i64) -> Result<bool> {
        let (mut at, mut steps) = (id, 0);
        while at != 0 {
            let count = self.count(at)?.checked_add_signed(by);
            self.counts.insert(at, count.ok_or_else(|| wrong("a subtree with less than no entries"))?);
            let Some(above) = self.parent(at)? else { return Ok(false) };
            at = above;
            steps += 1;
            if steps > DEEPEST {
                return Err(endless(id));
            }
        }
        Ok(true)
    }

    /// Returns true if the node is in the tree but one of its ancestors was removed.
    pub fn hangs(&mut self, id: u64) -> Result<bool> {
        let (mut at, mut chain) = (id, Vec::new());
        let hangs = loop {
            if at == 0 || self.taken.contains(&at) {
                break at != 0;
            }
            if let Some(hangs) = self.hanging.get(&at) {
                break *hangs;
            }
            if chain.len() > DEEPEST {
                return Err(endless(id));
            }
            chain.push(at);
            at = self.old(at)?.parent;
        };
        // Only the ancestors are cached: this entry itself may be removed next, which changes nothing for the others.
        self.hanging.extend(chain.into_iter().skip(1).map(|above| (above, hangs)));
        Ok(hangs && !self.taken.contains(&id))
    }

    /// Removes the node with its subtree.
    pub fn remove(&mut self, id: u64) -> Result<()> {
        let count = self.count(id)?;
        let parent = self.old(id)?.parent;
        self.taken.insert(id);
        self.counts.insert(id, count);
        self.climb(parent, -i64::try_from(count).unwrap_or(i64::MAX)).map(drop)
    }

    /// Reinserts a removed node at its old position.
    pub fn restore(&mut self, id: u64) -> Result<()> {
        let (count, parent) = (self.count(id)?, self.old(id)?.parent);
        self.taken.remove(&id);
        self.climb(parent, i64::try_from(count).unwrap_or(i64::MAX)).map(drop)
    }

    /// Returns the ID of the child with that name in the changed tree.
    pub fn child(&self, parent: u64, normal: &[u8]) -> Result<Option<u64>> {
        if let Some(id) = self.by_name.get(&(parent, Box::from(normal))) {
            return Ok(Some(*id));
        }
        let mut like = Vec::new();
        dn2i::child(&mut like, normal, normal, 0, 0);
        let found = self.dn2i.find(&parent.to_ne_bytes(), &like)?;
        let id = found.map(|record| read_node(&record).map(|node| node.id)).transpose()?;
        Ok(id.filter(|id| !self.taken.contains(id)))
    }

    /// Returns the ID of the entry with that DN in the changed tree.
    pub fn find(&mut self, hash: Hash, text: &[u8]) -> Result<Option<u64>> {
        if hash == ROOT {
            return Ok(Some(0));
        }
        if let Some(id) = self.found.get(&hash) {
            return Ok(Some(*id));
        }
        let dn = self.schema.dn(text).with_code(Code::Schema)?;
        let Some(steps) = self.suffixes.steps(&dn) else { return Ok(None) };
        let mut at = 0;
        for step in steps {
            let Some(below) = self.child(at, &step)? else { return Ok(None) };
            at = below;
        }
        self.found.insert(hash, at);
        Ok(Some(at))
    }

    /// Inserts the node under its parent.
    pub fn insert(&mut self, wanted: &NodeAfter<'_>) -> Result<std::result::Result<(), NoParent>> {
        if let Some(other) = self.child(wanted.parent, wanted.normal)? {
            return Ok(Err(NoParent::Taken(other)));
        }
        let NodeAfter { id, parent, normal, pretty } = *wanted;
        let count = if self.taken.contains(&id) { self.count(id)? } else { 1 };
        self.counts.insert(id, count);
        if !self.climb(parent, i64::try_from(count).unwrap_or(i64::MAX))? {
            return Ok(Err(NoParent::Below));
        }
        self.placed.insert(id, ParentAndRdn { parent, normal: normal.into(), pretty: pretty.into() });
        self.by_name.insert((parent, normal.into()), id);
        Ok(Ok(()))
    }

    /// Returns true if the node's parent or name differs from the file.
    pub fn moved(&mut self, id: u64) -> Result<bool> {
        let Some(placed) = self.placed.get(&id).cloned() else { return Ok(false) };
        let old = self.old(id)?;
        Ok((old.parent, &old.normal, &old.pretty) != (placed.parent, &placed.normal, &placed.pretty))
    }

    /// Writes removed and new records in the order of keys, removed ones first: a new node may have taken over a name.
    pub fn write(mut self, sink: &mut impl Sink) -> Result<()> {
        sink.open("dn2i")?;
        let mut gone: BTreeMap<u64, Vec<Vec<u8>>> = BTreeMap::new();
        let mut new: BTreeMap<u64, Vec<Vec<u8>>> = BTreeMap::new();
        let taken: Vec<u64> = self.taken.iter().copied().collect();
        for id in taken {
            let old = self.old(id)?.clone();
            let mut own = Vec::new();
            dn2i::own(&mut own, &old.normal, &old.pretty, old.parent);
            gone.entry(id).or_default().push(own);
            gone.entry(old.parent).or_default().push(self.listed(id)?);
        }
        for (id, placed) in std::mem::take(&mut self.placed) {
            let ParentAndRdn { parent, normal, pretty } = placed;
            let (mut own, mut child) = (Vec::new(), Vec::new());
            dn2i::own(&mut own, &normal, &pretty, parent);
            dn2i::child(&mut child, &normal, &pretty, id, self.counts[&id]);
            new.entry(id).or_default().push(own);
            new.entry(parent).or_default().push(child);
            self.counts.remove(&id);
        }
        for (id, count) in std::mem::take(&mut self.counts) {
            if self.taken.contains(&id) {
                continue;
            }
            let (old, listed) = (self.old(id)?.clone(), self.listed(id)?);
            let mut child = Vec::new();
            dn2i::child(&mut child, &old.normal, &old.pretty, id, count);
            if child != listed {
                gone.entry(old.parent).or_default().push(listed);
                new.entry(old.parent).or_default().push(child);
            }
        }
        for (records, put) in [(gone, false), (new, true)] {
            for (id, mut records) in records {
                records.sort_unstable_by(|left, right| dn2i::compare(left, right));
                for record in records {
                    let key = id.to_ne_bytes();
                    if put { sink.put(&key, &record)? } else { sink.remove(&key, &record)? }
                }
            }
        }
        Ok(())
    }
}

fn endless(id: u64) -> Error {
    wrong(format!("the way from entry {id} to the root is endless"))
}
