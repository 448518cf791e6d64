//! Merges dn2i, the tree of DNs. A shared entry gets its children from all shards.

use codec::dn2i::{self, Node};
use common::Counters;
use lmdbfile::{Peekable, Reader};

use crate::merge::Rows;
use crate::shards::{Shard, Shards, id_at, table};
use crate::{Code, Error, Result};

const DAMAGED: &str = "a record of dn2i is damaged";

pub fn rows(shards: &Shards, counters: &Counters, out: &mut Rows<'_>) -> Result<()> {
    let readers = shards.readers()?;
    let mut all = shards.starts(&readers, "dn2i")?;
    let mut names = Names::default();
    let below = shared_counts(shards, &readers)?;
    for id in 0..=shards.shared {
        counters.check()?;
        shared_node(shards, &mut all, id, &below, &mut names, out)?;
    }
    for (from, shard) in all.iter_mut().zip(&shards.all) {
        own_nodes(shards, shard, from, counters, out)?;
    }
    Ok(())
}

/// Returns the names of the suffixes, with the new IDs of their entries.
pub fn tops(shards: &Shards) -> Result<Vec<(Vec<u8>, u64)>> {
    let mut tops = Vec::new();
    for (number, shard) in shards.all.iter().enumerate() {
        let reader = shard.reader()?;
        let records = table(&reader, &shard.path, "dn2i")?.get_all(&0u64.to_ne_bytes());
        for child in records?.iter().skip(1) {
            let child = record(shard, child, true)?;
            if number == 0 || child.id > shards.shared {
                tops.push((child.normal.to_vec(), shards.id(shard, child.id)?));
            }
        }
    }
    Ok(tops)
}

/// Returns the number of shared entries in each shared entry's subtree (including the entry), indexed by its ID.
fn shared_counts(shards: &Shards, readers: &[Reader]) -> Result<Vec<u64>> {
    let (Some(shard), Some(mut from)) = (shards.all.first(), shards.starts(readers, "dn2i")?.into_iter().next()) else {
        return Ok(Vec::new());
    };
    let size = usize::try_from(shards.shared + 1).map_err(|_| Error::damaged("too many entries"))?;
    let mut parents = vec![0; size];
    while from.live && id_at(&from) <= shards.shared {
        let id = id_at(&from);
        if id > 0 && !dn2i::is_child(&from.value) {
            let parent = record(shard, &from.value, false)?.id;
            if parent >= id {
                return Err(shard.damaged(format!("entry {id} stands before its parent")));
            }
            parents[index(id)] = parent;
        }
        from.step()?;
    }
    let mut counts = vec![1; size];
    for id in (1..size).rev() {
        counts[index(parents[id])] += counts[id];
    }
    Ok(counts)
}

/// Returns the ID as an index into a list in memory.
fn index(id: u64) -> usize {
    usize::try_from(id).unwrap_or(usize::MAX)
}

fn shared_node(
    shards: &Shards,
    all: &mut [Peekable<'_>],
    id: u64,
    below: &[u64],
    names: &mut Names,
    out: &mut Rows<'_>,
) -> Result<()> {
    let key = id.to_ne_bytes();
    let first = all.first().map(|first| first.value.clone()).unwrap_or_default();
    for (from, shard) in all.iter_mut().zip(&shards.all) {
        if !from.is_at(&key) || from.value != first || dn2i::is_child(&first) {
            return Err(shard.damaged(format!("shared entry {id} differs from that of another shard")));
        }
        from.step()?;
    }
    names.note(id, &first);
    out.key(&key)?;
    out.value(&first)?;
    let mut record = Vec::new();
    while let Some(least_key) = least_key(all, &key) {
        // The child's new ID, and the number of entries in its subtree, added up over the shards so far.
        let mut sum: Option<(u64, Option<u64>)> = None;
        for (from, shard) in all.iter_mut().zip(&shards.all) {
            if from.is_at(&key) && dn2i::name_of(&from.value) == least_key {
                let node = self::record(shard, &from.value, true)?;
                let new = shards.id(shard, node.id)?;
                let (child, count) = match sum {
                    None => (new, node.child),
                    Some((known, _)) if known != new => return Err(duplicate(names.dn(id, &node))),
                    Some((known, before)) => {
                        // Every shard counts the shared entries in the child's subtree. They are added once.
                        let is_shared = node.id <= shards.shared;
                        let twice = below.get(index(new)).copied().filter(|_| is_shared).unwrap_or(0);
                        let more = node.child.unwrap_or(1).checked_sub(twice);
                        let count = more.and_then(|more| before?.checked_add(more));
                        (known, Some(count.ok_or_else(|| shard.damaged("an impossible count in dn2i"))?))
                    }
                };
                sum = Some((child, count));
                Node { id: child, child: count, ..node }.write(&mut record);
                from.step()?;
            }
        }
        out.value(&record)?;
    }
    out.end()
}

fn least_key(all: &[Peekable<'_>], key: &[u8]) -> Option<Vec<u8>> {
    let here = all.iter().filter(|from| from.is_at(key));
    here.map(|from| dn2i::name_of(&from.value)).min().map(<[u8]>::to_vec)
}

/// Sends the nodes of a shard's own entries. `from` must be behind the nodes of the shared entries.
fn own_nodes(
    shards: &Shards,
    shard: &Shard,
    from: &mut Peekable<'_>,
    counters: &Counters,
    out: &mut Rows<'_>,
) -> Result<()> {
    let (mut before, mut record) = (0, Vec::new());
    while from.live {
        let id = id_at(from);
        if id % 1024 == 0 {
            counters.check()?;
        }
        if id <= before || id > shard.last {
            return Err(shard.damaged(format!("node {id} of dn2i belongs to no entry")));
        }
        before = id;
        let key = id.to_ne_bytes();
        out.key(&shards.id(shard, id)?.to_ne_bytes())?;
        while from.is_at(&key) {
            let node = dn2i::read(&from.value).ok_or_else(|| shard.damaged(DAMAGED))?;
            Node { id: shards.id(shard, node.id)?, ..node }.write(&mut record);
            out.value(&record)?;
            from.step()?;
        }
        out.end()?;
    }
    Ok(())
}

/// Reads a record of dn2i, which must describe a child if `is_child` is set, otherwise the node itself.
fn record<'a>(shard: &Shard, record: &'a [u8], is_child: bool) -> Result<Node<'a>> {
    let node = dn2i::read(record).filter(|node| node.child.is_some() == is_child);
    node.ok_or_else(|| shard.damaged(DAMAGED))
}

fn duplicate(dn: String) -> Error {
    Error { dn: Some(dn), ..Error::new(Code::Duplicate, "there is already an entry with this DN") }
}

/// The name and the parent's ID of each shared entry, indexed by the entry's ID.
#[derive(Debug, Default)]
struct Names(Vec<(Vec<u8>, u64)>);

impl Names {
    /// Adds the name of the entry `id`. Must be called once for each ID, in order from 0 on.
    fn note(&mut self, id: u64, record: &[u8]) {
        let named = dn2i::read(record).map(|node| (node.pretty.to_vec(), node.id));
        self.0.push(named.filter(|_| id > 0).unwrap_or_default());
    }

    /// Returns the DN of `child`, whose parent is the shared entry `parent`.
    fn dn(&self, parent: u64, child: &Node<'_>) -> String {
        let (mut dn, mut above) = (child.pretty.to_vec(), parent);
        while let Some((rdn, next)) = self.0.get(index(above)).filter(|_| above > 0) {
            dn.push(b',');
            dn.extend_from_slice(rdn);
            above = *next.min(&(above - 1));
        }
        String::from_utf8_lossy(&dn).into_owned()
    }
}
