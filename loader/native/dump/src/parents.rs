//! Reads dn2i in the order of entry IDs, and caches the DNs of entries that have children.

use std::sync::Arc;

use codec::dn2i::{self, Node};
use lmdbfile::{Cursor, TableReader};
use rustc_hash::FxHashMap;

use crate::{Error, Result};

/// Maximum size of the cache in bytes; beyond it, the cache is emptied.
const CACHE_BYTES: usize = 16 << 20;
/// Estimated overhead of a cached DN in bytes.
const DN_OVERHEAD: usize = 100;
/// slapd accepts DNs of up to 8,192 bytes (`SLAP_LDAPDN_MAXLEN`), but the rename of an ancestor may make one longer. A
/// DN beyond this limit means that dn2i has a cycle.
const LONGEST_DN: usize = 1 << 16;

/// The DN of an entry, and properties that it inherits from its ancestors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ParentDn {
    /// The DN in pretty form, as slapcat writes it.
    pub(crate) dn: Vec<u8>,
    /// Number of nodes on the path from the root.
    pub(crate) depth: u32,
    /// Whether the entry has a lower ID than its parent, or an ancestor has a lower ID than its own parent.
    pub(crate) late: bool,
    /// Whether the entry is at or below the base.
    pub(crate) inside: bool,
}

impl ParentDn {
    /// Sets all fields for the entry `id` with the RDN `name`; `parent` and `above` are the parent's ID and fields.
    pub(crate) fn set(&mut self, id: u64, name: &[u8], parent: u64, above: &Self, base: u64) {
        self.dn.clear();
        self.dn.extend_from_slice(name);
        if !name.is_empty() && !above.dn.is_empty() {
            self.dn.push(b',');
        }
        self.dn.extend_from_slice(&above.dn);
        self.depth = above.depth + 1;
        self.late = above.late || parent > id;
        self.inside = above.inside || id == base;
    }
}

/// Finds the DNs of parents by ID, with a cache that is emptied when it exceeds its limit.
pub(crate) struct Parents<'r> {
    nodes: Nodes<'r>,
    base: u64,
    root: Arc<ParentDn>,
    known: FxHashMap<u64, Arc<ParentDn>>,
    bytes: usize,
    last: (u64, Arc<ParentDn>),
}

impl<'r> Parents<'r> {
    /// `base` is the ID of the base entry; 0 is the root node, which selects all entries.
    pub(crate) fn new(dn2i: &TableReader<'r>, base: u64) -> Result<Self> {
        let root = Arc::new(ParentDn { inside: base == 0, ..ParentDn::default() });
        let last = (0, Arc::clone(&root));
        let (nodes, known) = (Nodes::new(dn2i)?, FxHashMap::default());
        Ok(Self { nodes, base, root, known, bytes: 0, last })
    }

    pub(crate) const fn base(&self) -> u64 {
        self.base
    }

    #[inline]
    pub(crate) fn get(&mut self, id: u64) -> Result<&Arc<ParentDn>> {
        if self.last.0 != id {
            self.last = (id, self.find(id)?);
        }
        Ok(&self.last.1)
    }

    fn find(&mut self, id: u64) -> Result<Arc<ParentDn>> {
        let mut chain = Vec::new();
        let (mut at, mut length) = (id, 0);
        let mut above = loop {
            if let Some(place) = self.known(at) {
                break place;
            }
            let node = self.nodes.find(at)?;
            length += node.pretty.len() + 1;
            if length > LONGEST_DN {
                return Err(cycle(id));
            }
            chain.push((at, node.pretty.to_vec(), node.id));
            at = node.id;
        };
        for (id, name, parent) in chain.into_iter().rev() {
            let mut place = ParentDn::default();
            place.set(id, &name, parent, &above, self.base);
            if place.dn.len() > LONGEST_DN {
                return Err(cycle(id));
            }
            above = Arc::new(place);
            self.keep(id, &above);
        }
        Ok(above)
    }

    fn known(&self, id: u64) -> Option<Arc<ParentDn>> {
        if id == 0 { Some(Arc::clone(&self.root)) } else { self.known.get(&id).cloned() }
    }

    fn keep(&mut self, id: u64, place: &Arc<ParentDn>) {
        let size = place.dn.len() + DN_OVERHEAD;
        if self.bytes + size > CACHE_BYTES {
            self.known.clear();
            self.bytes = 0;
        }
        self.bytes += size;
        self.known.insert(id, Arc::clone(place));
    }
}

fn cycle(id: u64) -> Error {
    Error::damaged(format!("entry {id}: its ancestors form a cycle (table dn2i)"))
}

/// Reads the first record of each node, which has its RDN and its parent's ID; the records of its children are skipped.
pub(crate) struct Nodes<'r> {
    cursor: Cursor<'r>,
    id: Option<u64>,
    record: Vec<u8>,
}

impl<'r> Nodes<'r> {
    pub(crate) fn new(dn2i: &TableReader<'r>) -> Result<Self> {
        let cursor = dn2i.cursor()?;
        Ok(Self { cursor, id: None, record: Vec::new() })
    }

    /// Returns the node `id`. If `id` is the next key of the table, no search in the B+tree is needed.
    pub(crate) fn find(&mut self, id: u64) -> Result<Node<'_>> {
        if self.id.is_some_and(|here| here < id) {
            self.cursor.skip();
            self.take()?;
        }
        if self.id != Some(id) {
            self.cursor.seek(&id.to_ne_bytes())?;
            self.take()?;
        }
        let own = (self.id == Some(id)).then(|| dn2i::read(&self.record)).flatten();
        own.filter(|own| own.child.is_none()).ok_or_else(|| missing(id))
    }

    fn take(&mut self) -> Result<()> {
        self.id = None;
        self.record.clear();
        if let Some((key, record)) = self.cursor.next()? {
            self.id = codec::id::read(key);
            self.record.extend_from_slice(record);
        }
        Ok(())
    }
}

fn missing(id: u64) -> Error {
    Error::damaged(format!("entry {id} has no record of its own (table dn2i)"))
}
