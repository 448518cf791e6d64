//! id2v: values of attributes that have many, with other IDs and numbers.

use codec::id2v;
use common::Counters;

use crate::Result;
use crate::pipe::Rows;
use crate::shards::PeekableCursor;
use crate::shards::{Shard, Shards, table};

pub fn rows(shards: &Shards, counters: &Counters, out: &mut Rows<'_>) -> Result<()> {
    for (number, shard) in shards.all.iter().enumerate() {
        let reader = shard.reader()?;
        let first = if number == 0 { 0 } else { shards.shared + 1 };
        let mut from =
            PeekableCursor::new(&table(&reader, &shard.path, "id2v")?, &id2v::key(first, 0))?;
        while from.live {
            counters.check()?;
            let id = from.id();
            if shard.is_plain {
                let old = attribute(shard, &from)?;
                values(shards, shard, (id, old), &mut from, out)?;
            } else {
                entry(shards, shard, id, &mut from, out)?;
            }
        }
    }
    Ok(())
}

/// All attributes of one entry, in the order of their new numbers.
fn entry(
    shards: &Shards,
    shard: &Shard,
    id: u64,
    from: &mut PeekableCursor<'_>,
    out: &mut Rows<'_>,
) -> Result<()> {
    let mut numbers = Vec::new();
    while from.live && from.id() == id {
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
    from.seek(&id2v::key(id + 1, 0))
}

fn values(
    shards: &Shards,
    shard: &Shard,
    (id, old): (u64, u16),
    from: &mut PeekableCursor<'_>,
    out: &mut Rows<'_>,
) -> Result<()> {
    let new = u16::try_from(shard.number(u32::from(old))?).unwrap_or(u16::MAX);
    out.key(&id2v::key(shards.id(shard, id)?, new))?;
    let here = id2v::key(id, old);
    while from.is_at(&here) {
        out.value(&from.value)?;
        from.step()?;
    }
    out.end()
}

fn attribute(shard: &Shard, from: &PeekableCursor<'_>) -> Result<u16> {
    let key = id2v::read_key(&from.key);
    key.map(|(_, number)| number).ok_or_else(|| shard.wrong("a key of id2v is damaged"))
}
