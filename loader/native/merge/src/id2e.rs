//! id2e: the entries of the first shard, then what the others have besides the shared ones.

use std::collections::BTreeMap;

use ldif::Counters;
use tree::csn;

use crate::entry::{Head, heads, renumber};
use crate::peek::Peek;
use crate::pipe::Rows;
use crate::shards::{Shard, Shards, table};
use crate::{Result, context};

/// Server ID -> greatest entryCSN.
pub type Newest = BTreeMap<u16, Vec<u8>>;

/// Tells all rows; the greatest CSNs where `-w` asks for them.
pub fn rows(
    shards: &Shards,
    wanted: Option<&context::Wanted>,
    counters: &Counters,
    out: &mut Rows,
) -> Result<Newest> {
    let mut newest = Newest::new();
    for (number, shard) in shards.all.iter().enumerate() {
        let reader = shard.reader()?;
        let first = if number == 0 { 1 } else { shards.shared + 1 };
        let id2e = table(&reader, &shard.path, "id2e")?;
        let mut from = Peek::new(&id2e, &first.to_ne_bytes())?;
        for id in first..=shard.last {
            if from.id() != id {
                return Err(shard.wrong(format!("entry {id} is not in id2e")));
            }
            let found = entry(shard, &mut from.value)?;
            if let Some(wanted) = wanted {
                note(&mut newest, wanted, &found, &from.value);
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

/// Gives the attributes their new numbers, and makes the pad zero.
fn entry(shard: &Shard, blob: &mut [u8]) -> Result<Vec<Head>> {
    let (mut found, end) = heads(blob).ok_or_else(|| shard.wrong("an entry in id2e is damaged"))?;
    for head in &mut found {
        let new = shard.number(head.number)?;
        if new != head.number {
            renumber(blob, head, new);
            head.number = new;
        }
    }
    blob[end..].fill(0);
    Ok(found)
}

/// The normal form of entryCSN where it is stored, as slapadd -w looks at it.
fn note(newest: &mut Newest, wanted: &context::Wanted, heads: &[Head], blob: &[u8]) {
    let Some(head) = heads.iter().find(|head| Some(head.number) == wanted.entry_csn) else {
        return;
    };
    let stored = if head.normals.is_empty() { &head.values } else { &head.normals };
    let text = blob[stored.clone()].split(|byte| *byte == 0).next().unwrap_or_default();
    let sid = csn::sid(text).and_then(|sid| u16::from_str_radix(&sid, 16).ok());
    let Some(sid) = sid else { return };
    let known = newest.entry(sid).or_default();
    if known.as_slice() < text {
        *known = text.to_vec();
    }
}
