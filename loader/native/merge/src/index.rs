//! An index: behind each key the lists of all shards, one after the other.

use ldif::Counters;
use lmdbfile::Reader;

use crate::peek::Peek;
use crate::pipe::Rows;
use crate::shards::{Shard, Shards, table};
use crate::{Result, damaged};

/// Tells the rows of the index `name`. `most`: so many IDs a list may have.
pub fn rows(
    shards: &Shards,
    name: &str,
    most: usize,
    counters: &Counters,
    out: &mut Rows,
) -> Result<()> {
    let readers: Vec<Reader> = shards.all.iter().map(Shard::reader).collect::<Result<_>>()?;
    let mut all = Vec::new();
    for (reader, shard) in readers.iter().zip(&shards.all) {
        all.push(Peek::new(&table(reader, &shard.path, name)?, b"")?);
    }
    let mut list = List { most, ..List::default() };
    while let Some(key) = all.iter().filter(|one| one.live).map(|one| &one.key).min() {
        let key = key.clone();
        counters.check()?;
        list.clear();
        for (number, (from, shard)) in all.iter_mut().zip(&shards.all).enumerate() {
            if from.is_at(&key) {
                list.take(from, &key, |old| {
                    let is_new = number == 0 || old > shards.shared;
                    Ok((shards.id(shard, old)?, is_new))
                })?;
            }
        }
        out.key(&key)?;
        out.ids(list.row())?;
        out.end()?;
    }
    Ok(())
}

/// What stands behind one key.
#[derive(Debug, Default)]
struct List {
    most: usize,
    ids: Vec<u64>,
    is_range: bool,
    range: [u64; 3],
}

impl List {
    fn clear(&mut self) {
        self.ids.clear();
        self.is_range = false;
        self.range = [0, u64::MAX, 0];
    }

    /// All IDs of `key`. `id`: the new one, and whether no shard before has told it.
    fn take(
        &mut self,
        from: &mut Peek<'_>,
        key: &[u8],
        id: impl Fn(u64) -> Result<(u64, bool)>,
    ) -> Result<()> {
        while from.is_at(key) {
            let old = codec::id::read(&from.value);
            let old = old.ok_or_else(|| damaged("an ID in an index"))?;
            if old == 0 {
                self.is_range = true;
            } else {
                self.add(id(old)?);
            }
            from.step()?;
        }
        Ok(())
    }

    fn add(&mut self, (new, is_new): (u64, bool)) {
        self.range[1] = self.range[1].min(new);
        self.range[2] = self.range[2].max(new);
        if is_new && !self.is_range {
            self.ids.push(new);
            self.is_range = self.ids.len() > self.most;
        }
    }

    fn row(&self) -> &[u64] {
        if self.is_range { &self.range } else { &self.ids }
    }
}
