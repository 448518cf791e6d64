//! id2e: the entries of the first shard, then what the others have besides the shared ones.

use std::collections::BTreeMap;

use codec::id2e;
use common::Counters;
use tree::csn;

use crate::peekable::PeekableCursor;
use crate::pipe::Rows;
use crate::shards::{Shards, table};
use crate::{Error, Result, context};

/// Server ID -> greatest entryCSN.
pub type ContextCsns = BTreeMap<u16, Vec<u8>>;

/// Tells all rows; the greatest CSNs where `-w` asks for them.
pub fn rows(
    shards: &Shards,
    wanted: Option<&context::ContextCsnTarget>,
    counters: &Counters,
    out: &mut Rows,
) -> Result<ContextCsns> {
    let mut newest = ContextCsns::new();
    for (number, shard) in shards.all.iter().enumerate() {
        let reader = shard.reader()?;
        let first = if number == 0 { 1 } else { shards.shared + 1 };
        let id2e = table(&reader, &shard.path, "id2e")?;
        let mut from = PeekableCursor::new(&id2e, &first.to_ne_bytes())?;
        for id in first..=shard.last {
            if from.id() != id {
                return Err(shard.wrong(format!("entry {id} is not in id2e")));
            }
            let damaged = || shard.wrong("an entry in id2e is damaged");
            id2e::renumber(&mut from.value, damaged, |number| shard.number(number))?;
            if let Some(wanted) = wanted {
                note(&mut newest, wanted.entry_csn, &from.value, damaged)?;
            }
            let (new, held) = (shards.id(shard, id)?, wanted.map(|wanted| wanted.bearer));
            let key = new.to_ne_bytes();
            if held == Some(new) {
                out.hold(&key, &from.value)?;
            } else {
                out.put(&key, &from.value)?;
            }
            counters.add(1, 0);
            if id % 1024 == 0 {
                counters.check()?;
            }
            from.step()?;
        }
    }
    Ok(newest)
}

/// The normal form of entryCSN where it is stored, as slapadd -w looks at it.
fn note(
    newest: &mut ContextCsns,
    number: Option<u32>,
    value: &[u8],
    damaged: impl Fn() -> Error,
) -> Result<()> {
    id2e::each(value, damaged, |stored| {
        let text = stored.first_normal().or_else(|| stored.values().next());
        let text = text.filter(|_| Some(stored.number) == number).unwrap_or_default();
        let sid = csn::sid(text).and_then(|sid| u16::from_str_radix(&sid, 16).ok());
        let Some(sid) = sid else { return Ok(()) };
        let known = newest.entry(sid).or_default();
        if known.as_slice() < text {
            *known = text.to_vec();
        }
        Ok(())
    })
}
