//! Merges the tables with several values per key: indexes and id2v. A key of an index gets the ID lists of all shards,
//! one after another. Values in id2v get new IDs and attribute numbers.

use codec::idl::{self, IndexRecord};
use codec::{id, id2v};
use common::Counters;
use lmdbfile::Peekable;

use crate::Result;
use crate::merge::Rows;
use crate::shards::{Shard, Shards, id_at, table};

/// Sends the rows of the index `name`. `exponent` is `idlexp`.
pub fn rows(shards: &Shards, name: &str, exponent: u32, counters: &Counters, out: &mut Rows<'_>) -> Result<()> {
    let readers = shards.readers()?;
    let mut all = shards.starts(&readers, name)?;
    let mut row = idl::Writer::new(exponent);
    while let Some(key) = all.iter().filter(|from| from.live).map(|from| &from.key).min() {
        let key = key.clone();
        counters.check()?;
        row.clear();
        for (number, (from, shard)) in all.iter_mut().zip(&shards.all).enumerate() {
            if from.is_at(&key) {
                take(shards, shard, from, number == 0, &mut row)?;
            }
        }
        out.key(&key)?;
        out.ids(row.row())?;
        out.end()?;
    }
    Ok(())
}

/// Adds the IDs that `shard` has under the current key. Without `with_shared`, leaves out the IDs of shared entries.
fn take(
    shards: &Shards,
    shard: &Shard,
    from: &mut Peekable<'_>,
    with_shared: bool,
    row: &mut idl::Writer,
) -> Result<()> {
    let key = from.key.clone();
    let mut first = read(shard, from)?;
    let begun = idl::begin(first, || {
        from.step()?;
        from.is_at(&key).then(|| read(shard, from)).transpose()
    })?;
    match begun {
        IndexRecord::Damaged => return Err(shard.damaged("an index has an invalid range")),
        IndexRecord::Range(low, high) => row.widen([shards.id(shard, low)?, shards.id(shard, high)?]),
        IndexRecord::List => loop {
            if with_shared || first > shards.shared {
                row.add(shards.id(shard, first)?);
            }
            from.step()?;
            if !from.is_at(&key) {
                break;
            }
            first = read(shard, from)?;
        },
    }
    Ok(())
}

fn read(shard: &Shard, from: &Peekable<'_>) -> Result<u64> {
    id::read(&from.value).ok_or_else(|| shard.damaged("an index has an ID that does not have 8 bytes"))
}

pub fn multival_rows(shards: &Shards, counters: &Counters, out: &mut Rows<'_>) -> Result<()> {
    for (number, shard) in shards.all.iter().enumerate() {
        let reader = shard.reader()?;
        let first = if number == 0 { 0 } else { shards.shared + 1 };
        let mut from = Peekable::new(&table(&reader, &shard.path, "id2v")?, &id2v::key(first, 0))?;
        while from.live {
            counters.check()?;
            if shard.is_plain {
                values(shards, shard, (id_at(&from), attribute(shard, &from)?), &mut from, out)?;
            } else {
                entry(shards, shard, &mut from, out)?;
            }
        }
    }
    Ok(())
}

/// Sends an entry's values in id2v. The attributes come in the order of their new numbers.
fn entry(shards: &Shards, shard: &Shard, from: &mut Peekable<'_>, out: &mut Rows<'_>) -> Result<()> {
    let id = id_at(from);
    let mut numbers = Vec::new();
    while from.live && id_at(from) == id {
        let old = attribute(shard, from)?;
        numbers.push((shard.number(u32::from(old))?, old));
        let Some(next) = old.checked_add(1) else { break };
        from.seek(&id2v::key(id, next))?;
    }
    numbers.sort_unstable();
    for (_, old) in numbers {
        from.seek(&id2v::key(id, old))?;
        values(shards, shard, (id, old), from, out)?;
    }
    Ok(from.seek(&id2v::key(id + 1, 0))?)
}

fn values(
    shards: &Shards,
    shard: &Shard,
    (id, old): (u64, u16),
    from: &mut Peekable<'_>,
    out: &mut Rows<'_>,
) -> Result<()> {
    let new = u16::try_from(shard.number(u32::from(old))?).unwrap_or(u16::MAX);
    out.key(&id2v::key(shards.id(shard, id)?, new))?;
    let key = id2v::key(id, old);
    while from.is_at(&key) {
        out.value(&from.value)?;
        from.step()?;
    }
    out.end()
}

fn attribute(shard: &Shard, from: &Peekable<'_>) -> Result<u16> {
    let key = id2v::read_key(&from.key);
    key.map(|(_, number)| number).ok_or_else(|| shard.damaged("a key of id2v is damaged"))
}
