//! Changes the DN tree: removes nodes from their old parents and inserts them under their new parents.
//!
//! First all moved or deleted nodes are removed, each with the rest of its subtree. Then nodes are inserted, parents
//! first. So the result does not depend on the order in which entries were renamed at the provider.

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

/// Maximum number of RDNs in a DN, because slapd accepts DNs of at most 8192 bytes (`SLAP_LDAPDN_MAXLEN`).
const DEEPEST: usize = 8192;

/// A node's name and the ID of its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub parent: u64,
    pub normal: Box<[u8]>,
    pub pretty: Box<[u8]>,
}

impl Node {
    /// Returns the node's own record.
    fn own(&self) -> Vec<u8> {
        let mut record = Vec::new();
        dn2i::own(&mut record, &self.normal, &self.pretty, self.parent);
        record
    }

    /// Returns the node's record in its parent's list. `count`: the number of entries in its subtree.
    fn child(&self, id: u64, count: u64) -> Vec<u8> {
        let mut record = Vec::new();
        dn2i::child(&mut record, &self.normal, &self.pretty, id, count);
        record
    }
}

/// The reason why a node cannot be inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InsertRefusal {
    /// The parent has another child with this name. The number is the child's ID.
    NameTaken(u64),
    /// The node would be below itself, or below a removed node.
    NoPathToRoot,
}

pub struct Dn2idChanges<'r> {
    dn2i: TableReader<'r>,
    schema: &'r Schema,
    suffixes: &'r Suffixes,
    /// Cache of nodes as they are in the file.
    old: FxHashMap<u64, Node>,
    /// Cache of hashes of DNs in the file.
    hashes: FxHashMap<u64, Hash>,
    /// Sizes of subtrees that differ from those in the file.
    counts: FxHashMap<u64, u64>,
    removed: FxHashSet<u64>,
    /// Cache: whether the node is below a removed node.
    cut_off: FxHashMap<u64, bool>,
    inserted: FxHashMap<u64, Node>,
    /// IDs of inserted nodes by their parents and normalised names.
    inserted_by_name: FxHashMap<(u64, Box<[u8]>), u64>,
    /// Cache: IDs by the hashes of their DNs in the changed tree.
    ids: FxHashMap<Hash, u64>,
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
            removed: FxHashSet::default(),
            cut_off: FxHashMap::default(),
            inserted: FxHashMap::default(),
            inserted_by_name: FxHashMap::default(),
            ids: FxHashMap::default(),
        }
    }

    /// Returns the node as it is in the file.
    pub fn old(&mut self, id: u64) -> Result<&Node> {
        if !self.old.contains_key(&id) {
            let record = self.dn2i.get(&id.to_ne_bytes())?;
            let record = record.ok_or_else(|| wrong(format!("entry {id} is not in dn2i")))?;
            let node = read_node(&record)?;
            let (normal, pretty) = (node.normal.into(), node.pretty.into());
            self.old.insert(id, Node { parent: node.id, normal, pretty });
        }
        Ok(&self.old[&id])
    }

    /// Returns the hash of the DN that the node has in the file.
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

    /// Returns the parent in the changed tree; `None` for a removed node.
    fn parent(&mut self, id: u64) -> Result<Option<u64>> {
        if let Some(node) = self.inserted.get(&id) {
            return Ok(Some(node.parent));
        }
        if self.removed.contains(&id) { Ok(None) } else { self.old(id).map(|old| Some(old.parent)) }
    }

    /// Returns the number of entries in the node's changed subtree, including the node itself.
    pub fn count(&mut self, id: u64) -> Result<u64> {
        if let Some(count) = self.counts.get(&id) {
            return Ok(*count);
        }
        let record = self.listed(id)?;
        read_node(&record)?.child.ok_or_else(|| wrong(format!("entry {id}: no child in its parent's list")))
    }

    /// Returns the node's record in its parent's list, from the file.
    fn listed(&mut self, id: u64) -> Result<Vec<u8>> {
        let (dn2i, old) = (self.dn2i, self.old(id)?);
        let record = dn2i.find(&old.parent.to_ne_bytes(), &old.child(id, 0))?;
        record.ok_or_else(|| wrong(format!("entry {id} is not in its parent's list")))
    }

    /// Adds `by` to the sizes of the subtrees from `id` up to the root or a removed node. Returns true if the root was
    /// reached.
    fn add_to_counts(&mut self, id: u64, by: i64) -> Result<bool> {
        let (mut at, mut steps) = (id, 0);
        while at != 0 {
            let count = self.count(at)?.checked_add_signed(by);
            self.counts.insert(at, count.ok_or_else(|| wrong("a subtree with less than no entries"))?);
            let Some(parent) = self.parent(at)? else { return Ok(false) };
            at = parent;
            steps += 1;
            if steps > DEEPEST {
                return Err(endless(id));
            }
        }
        Ok(true)
    }

    /// Returns true if the node was not removed, but one of its ancestors was.
    pub fn is_cut_off(&mut self, id: u64) -> Result<bool> {
        let (mut at, mut chain) = (id, Vec::new());
        let is_cut_off = loop {
            if at == 0 || self.removed.contains(&at) {
                break at != 0;
            }
            if let Some(is_cut_off) = self.cut_off.get(&at) {
                break *is_cut_off;
            }
            if chain.len() > DEEPEST {
                return Err(endless(id));
            }
            chain.push(at);
            at = self.old(at)?.parent;
        };
        // Only the ancestors are cached: this node itself may be removed next. That changes nothing for its ancestors.
        self.cut_off.extend(chain.into_iter().skip(1).map(|ancestor| (ancestor, is_cut_off)));
        Ok(is_cut_off && !self.removed.contains(&id))
    }

    /// Removes the node with its subtree.
    pub fn remove(&mut self, id: u64) -> Result<()> {
        let (count, parent) = (self.count(id)?, self.old(id)?.parent);
        self.removed.insert(id);
        self.counts.insert(id, count);
        self.add_to_counts(parent, -i64::try_from(count).unwrap_or(i64::MAX)).map(drop)
    }

    /// Reinserts a removed node at its old position.
    pub fn restore(&mut self, id: u64) -> Result<()> {
        let (count, parent) = (self.count(id)?, self.old(id)?.parent);
        self.removed.remove(&id);
        self.add_to_counts(parent, i64::try_from(count).unwrap_or(i64::MAX)).map(drop)
    }

    /// Returns the ID of the child of `parent` with this normalised name in the changed tree.
    pub fn child(&self, parent: u64, normal: &[u8]) -> Result<Option<u64>> {
        if let Some(id) = self.inserted_by_name.get(&(parent, Box::from(normal))) {
            return Ok(Some(*id));
        }
        let mut like = Vec::new();
        dn2i::child(&mut like, normal, normal, 0, 0);
        let record = self.dn2i.find(&parent.to_ne_bytes(), &like)?;
        let id = record.map(|record| read_node(&record).map(|node| node.id)).transpose()?;
        Ok(id.filter(|id| !self.removed.contains(id)))
    }

    /// Returns the ID of the entry with this DN in the changed tree.
    pub fn find(&mut self, hash: Hash, text: &[u8]) -> Result<Option<u64>> {
        if hash == ROOT {
            return Ok(Some(0));
        }
        if let Some(id) = self.ids.get(&hash) {
            return Ok(Some(*id));
        }
        let dn = self.schema.dn(text).with_code(Code::Schema)?;
        let Some(names) = self.suffixes.steps(&dn) else { return Ok(None) };
        let mut id = 0;
        for name in names {
            let Some(child) = self.child(id, &name)? else { return Ok(None) };
            id = child;
        }
        self.ids.insert(hash, id);
        Ok(Some(id))
    }

    /// Inserts the node under its parent.
    pub fn insert(&mut self, id: u64, node: Node) -> Result<std::result::Result<(), InsertRefusal>> {
        if let Some(other) = self.child(node.parent, &node.normal)? {
            return Ok(Err(InsertRefusal::NameTaken(other)));
        }
        let count = if self.removed.contains(&id) { self.count(id)? } else { 1 };
        self.counts.insert(id, count);
        if !self.add_to_counts(node.parent, i64::try_from(count).unwrap_or(i64::MAX))? {
            return Ok(Err(InsertRefusal::NoPathToRoot));
        }
        self.inserted_by_name.insert((node.parent, node.normal.clone()), id);
        self.inserted.insert(id, node);
        Ok(Ok(()))
    }

    /// Returns true if the node has another parent or name than in the file.
    pub fn is_moved(&mut self, id: u64) -> Result<bool> {
        let Some(node) = self.inserted.get(&id).cloned() else { return Ok(false) };
        Ok(*self.old(id)? != node)
    }

    /// Removes old records and then writes new records, each in the order of keys. The removals come first, because a
    /// new node may have the name of a removed node.
    pub fn write(mut self, sink: &mut impl Sink) -> Result<()> {
        sink.open("dn2i")?;
        let mut gone: BTreeMap<u64, Vec<Vec<u8>>> = BTreeMap::new();
        let mut new: BTreeMap<u64, Vec<Vec<u8>>> = BTreeMap::new();
        let removed: Vec<u64> = self.removed.iter().copied().collect();
        for id in removed {
            let old = self.old(id)?.clone();
            gone.entry(id).or_default().push(old.own());
            gone.entry(old.parent).or_default().push(self.listed(id)?);
        }
        for (id, node) in std::mem::take(&mut self.inserted) {
            new.entry(id).or_default().push(node.own());
            new.entry(node.parent).or_default().push(node.child(id, self.counts[&id]));
            self.counts.remove(&id);
        }
        for (id, count) in std::mem::take(&mut self.counts) {
            if self.removed.contains(&id) {
                continue;
            }
            let (old, listed) = (self.old(id)?.clone(), self.listed(id)?);
            let child = old.child(id, count);
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
