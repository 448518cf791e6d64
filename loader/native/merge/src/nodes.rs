//! Merges dn2i, the tree. The children of shared entries are collected from all shards.

use codec::dn2i::{self, Node};
use common::Counters;
use lmdbfile::{Peekable, Reader};

use crate::merge::Rows;
use crate::shards::{Shard, Shards, id_at, table};
use crate::{Code, Error, Result};

pub fn rows(shards: &Shards, counters: &Counters, out: &mut Rows<'_>) -> Result<()> {
    let readers: Vec<Reader> = shards.all.iter().map(Shard::reader).collect::<Result<_>>()?;
    let mut all = Vec::new();
    for (reader, shard) in readers.iter().zip(&shards.all) {
        all.push(Peekable::new(&table(reader, &shard.path, "dn2i")?, b"")?);
    }
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
    let mut found = Vec::new();
    for (number, shard) in shards.all.iter().enumerate() {
        let reader = shard.reader()?;
        let records = table(&reader, &shard.path, "dn2i")?.get_all(&0u64.to_ne_bytes());
        for record in records?.iter().skip(1) {
            let child = child_record(shard, record)?;
            if number == 0 || child.id > shards.shared {
                found.push((child.normal.to_vec(), shards.id(shard, child.id)?));
            }
        }
    }
    Ok(found)
}

/// Returns, for each shared entry, the number of shared entries in its subtree, including itself.
fn shared_counts(shards: &Shards, readers: &[Reader]) -> Result<Vec<u64>> {
    let (Some(reader), Some(shard)) = (readers.first(), shards.all.first()) else {
        return Ok(Vec::new());
    };
    let mut from = Peekable::new(&table(reader, &shard.path, "dn2i")?, b"")?;
    let size = usize::try_from(shards.shared + 1).map_err(|_| Error::damaged("too many entries"))?;
    let mut parents = vec![0; size];
    while from.live && id_at(&from) <= shards.shared {
        let id = id_at(&from);
        if id > 0 && !dn2i::is_child(&from.value) {
            let parent = own_record(shard, &from.value)?.id;
            if parent >= id {
                return Err(shard.wrong(format!("entry {id} stands before its parent")));
            }
            parents[place(id)] = parent;
        }
        from.step()?;
    }
    let mut counts = vec![1; size];
    for id in (1..size).rev() {
        counts[place(parents[id])] += counts[id];
    }
    Ok(counts)
}

/// Returns the ID as an index into a list in memory.
fn place(id: u64) -> usize {
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
            return Err(shard.wrong(format!("shared entry {id} differs from that of another shard")));
        }
        from.step()?;
    }
    names.note(id, &first);
    out.key(&key)?;
    out.value(&first)?;
    let mut record = Vec::new();
    while let Some(least_key) = least_key(all, &key) {
        let mut sum = Sum::default();
        for (from, shard) in all.iter_mut().zip(&shards.all) {
            if from.is_at(&key) && dn2i::name_of(&from.value) == least_key {
                let node = child_record(shard, &from.value)?;
                sum.add(shards, shard, node, below)?;
                if sum.is_double {
                    return Err(duplicate(names.dn(id, &node)));
                }
                let id = sum.id.unwrap_or(node.id);
                Node { id, child: Some(sum.count), ..node }.write(&mut record);
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

/// A child with the counts of all shards.
#[derive(Debug, Default)]
struct Sum {
    id: Option<u64>,
    count: u64,
    is_double: bool,
}

impl Sum {
    fn add(&mut self, shards: &Shards, shard: &Shard, one: Node<'_>, below: &[u64]) -> Result<()> {
        let (id, is_shared) = (shards.id(shard, one.id)?, one.id <= shards.shared);
        let count = one.child.unwrap_or(1);
        let Some(known) = self.id else {
            (self.id, self.count) = (Some(id), count);
            return Ok(());
        };
        self.is_double = known != id;
        let twice = below.get(place(id)).copied().filter(|_| is_shared).unwrap_or(0);
        let more = count.checked_sub(twice);
        let sum = more.and_then(|more| self.count.checked_add(more));
        self.count = sum.ok_or_else(|| shard.wrong("an impossible count in dn2i"))?;
        Ok(())
    }
}

/// Sends the nodes of one shard that no other shard has.
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
            return Err(shard.wrong(format!("node {id} of dn2i belongs to no entry")));
        }
        before = id;
        let key = id.to_ne_bytes();
        out.key(&shards.id(shard, id)?.to_ne_bytes())?;
        while from.is_at(&key) {
            let node = dn2i::read(&from.value).ok_or_else(|| bad(shard))?;
            Node { id: shards.id(shard, node.id)?, ..node }.write(&mut record);
            out.value(&record)?;
            from.step()?;
        }
        out.end()?;
    }
    Ok(())
}

fn own_record<'a>(shard: &Shard, record: &'a [u8]) -> Result<Node<'a>> {
    dn2i::read(record).filter(|node| node.child.is_none()).ok_or_else(|| bad(shard))
}

fn child_record<'a>(shard: &Shard, record: &'a [u8]) -> Result<Node<'a>> {
    dn2i::read(record).filter(|node| node.child.is_some()).ok_or_else(|| bad(shard))
}

fn bad(shard: &Shard) -> Error {
    shard.wrong("a record of dn2i is damaged")
}

fn duplicate(dn: String) -> Error {
    let message = "there is already an entry with this DN".to_owned();
    Error { dn: Some(dn), ..Error::new(Code::Duplicate, message) }
}

/// Names of the shared entries, with their parents.
#[derive(Debug, Default)]
struct Names(Vec<(Vec<u8>, u64)>);

impl Names {
    /// Adds an entry; IDs must ascend.
    fn note(&mut self, id: u64, record: &[u8]) {
        let named = dn2i::read(record).map(|node| (node.pretty.to_vec(), node.id));
        self.0.push(named.filter(|_| id > 0).unwrap_or_default());
    }

    /// Returns the DN of a child of a shared entry.
    fn dn(&self, parent: u64, child: &Node<'_>) -> String {
        let (mut dn, mut above) = (child.pretty.to_vec(), parent);
        while let Some((rdn, next)) = self.0.get(usize::try_from(above).unwrap_or(usize::MAX)).filter(|_| above > 0) {
            dn.push(b',');
            dn.extend_from_slice(rdn);
            above = *next.min(&(above - 1));
        }
        String::from_utf8_lossy(&dn).into_owned()
    }
}
