//! Merges id2e: all entries of the first shard, then each other shard's own entries, which are not shared. Adds
//! contextCSN to the suffix entry, as `slapadd -w` does.

use std::collections::BTreeMap;

use codec::id2e;
use common::Counters;
use lmdbfile::Peekable;
use tree::csn;
use tree::name::ParsedDn;

use crate::merge::Rows;
use crate::shards::{Shards, id_at, table};
use crate::{Code, Error, Result, nodes};

/// Maps each server ID to its greatest entryCSN.
pub type ContextCsns = BTreeMap<u16, Vec<u8>>;

/// Sends all rows. Returns the greatest entryCSN of each server ID, or an empty map if there is no `target` (no `-w`).
pub fn rows(
    shards: &Shards,
    target: Option<&ContextCsnTarget>,
    counters: &Counters,
    out: &mut Rows<'_>,
) -> Result<ContextCsns> {
    let mut newest = ContextCsns::new();
    for (number, shard) in shards.all.iter().enumerate() {
        let reader = shard.reader()?;
        let first = if number == 0 { 1 } else { shards.shared + 1 };
        let id2e = table(&reader, &shard.path, "id2e")?;
        let mut from = Peekable::new(&id2e, &first.to_ne_bytes())?;
        for id in first..=shard.last {
            if id_at(&from) != id {
                return Err(shard.damaged(format!("entry {id} is not in id2e")));
            }
            let damaged = || shard.damaged("an entry in id2e is damaged");
            id2e::renumber(&mut from.value, damaged, |number| shard.number(number))?;
            if let Some(target) = target {
                note(&mut newest, target.entry_csn, &from.value, damaged)?;
            }
            let new = shards.id(shard, id)?;
            let is_pending = target.is_some_and(|target| target.bearer == new);
            out.put(&new.to_ne_bytes(), &from.value, is_pending)?;
            counters.add(1, 0);
            if id % 1024 == 0 {
                counters.check()?;
            }
            from.step()?;
        }
    }
    Ok(newest)
}

/// Updates `newest` with an entry's entryCSN. Like `slapadd -w`, prefers the normalized value, if one is stored.
fn note(newest: &mut ContextCsns, number: Option<u32>, value: &[u8], damaged: impl Fn() -> Error) -> Result<()> {
    id2e::each(value, damaged, |stored| {
        let text = stored.first_normal().or_else(|| stored.values().next());
        let text = text.filter(|_| Some(stored.number) == number).unwrap_or_default();
        let Some(sid) = csn::sid(text) else { return Ok(()) };
        let greatest = newest.entry(sid).or_default();
        if greatest.as_slice() < text {
            *greatest = text.to_vec();
        }
        Ok(())
    })
}

#[derive(Debug)]
pub struct ContextCsnTarget {
    /// The new ID of the entry that gets contextCSN.
    pub bearer: u64,
    /// The attribute number of entryCSN, if any entry has that attribute.
    pub entry_csn: Option<u32>,
}

impl ContextCsnTarget {
    /// `suffix` is the first suffix of the database.
    pub fn new(shards: &Shards, suffix: &str) -> Result<Self> {
        let tops = nodes::tops(shards)?;
        let name = ParsedDn::new(suffix.as_bytes());
        let own = tops.iter().find(|(normal, _)| ParsedDn::new(normal).key() == name.key());
        let only = (tops.len() == 1).then(|| &tops[0]);
        let missing = || Error::new(Code::RootMissing, format!("there is no entry {suffix} to bear contextCSN"));
        let (_, bearer) = own.or(only).ok_or_else(missing)?;
        Ok(Self { bearer: *bearer, entry_csn: number(shards, b"entryCSN") })
    }
}

fn number(shards: &Shards, name: &[u8]) -> Option<u32> {
    let at = shards.descriptions.iter().position(|text| text == name)?;
    u32::try_from(at + 1).ok()
}

/// Returns an entry's value in id2e with contextCSN added, which gets a new attribute number if no entry had it before.
pub fn stamped(shards: &mut Shards, value: &[u8], newest: &ContextCsns) -> Result<Vec<u8>> {
    let name = b"contextCSN";
    let next = u32::try_from(shards.descriptions.len() + 1).unwrap_or(u32::MAX);
    let known = number(shards, name);
    let stamped = backmdb::context::with_context(value, known.unwrap_or(next), u32::MAX, newest)?;
    if known.is_none() && stamped != value {
        shards.descriptions.push(name.to_vec());
    }
    Ok(stamped)
}
