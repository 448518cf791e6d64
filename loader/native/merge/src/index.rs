//! An index: behind each key the lists of all shards, one after the other.

use codec::id;
use codec::idl::{self, IndexRecord};
use common::Counters;
use lmdbfile::Reader;

use crate::Result;
use crate::pipe::Rows;
use crate::shards::PeekableCursor;
use crate::shards::{Shard, Shards, table};

/// Tells the rows of the index `name`. `exponent`: `idlexp`.
pub fn rows(
    shards: &Shards,
    name: &str,
    exponent: u32,
    counters: &Counters,
    out: &mut Rows<'_>,
) -> Result<()> {
    let readers: Vec<Reader> = shards.all.iter().map(Shard::reader).collect::<Result<_>>()?;
    let mut all = Vec::new();
    for (reader, shard) in readers.iter().zip(&shards.all) {
        all.push(PeekableCursor::new(&table(reader, &shard.path, name)?, b"")?);
    }
    let mut row = idl::Writer::new(exponent);
    while let Some(key) = all.iter().filter(|one| one.live).map(|one| &one.key).min() {
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

/// Adds the IDs that `shard` has under the key in hand. `with_shared`: those of shared entries too.
fn take(
    shards: &Shards,
    shard: &Shard,
    from: &mut PeekableCursor<'_>,
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
        IndexRecord::Damaged => return Err(shard.wrong("an index has a range that is none")),
        IndexRecord::Range(low, high) => {
            row.widen([shards.id(shard, low)?, shards.id(shard, high)?]);
        }
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

fn read(shard: &Shard, from: &PeekableCursor<'_>) -> Result<u64> {
    id::read(&from.value).ok_or_else(|| shard.wrong("an index has an ID that has not 8 bytes"))
}
