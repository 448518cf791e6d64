//! contextCSN of the suffix entry, as one `slapadd -w` leaves it.

use tree::name::ParsedDn;

use crate::id2e::ContextCsns;
use crate::nodes;
use crate::shards::Shards;
use crate::{Code, Error, Result};

#[derive(Debug)]
pub struct ContextCsnTarget {
    /// The new ID of the entry that shall have it.
    pub bearer: u64,
    /// The number of entryCSN, if any entry has one.
    pub entry_csn: Option<u32>,
}

impl ContextCsnTarget {
    /// `suffix`: the first of the database.
    pub fn new(shards: &Shards, suffix: &str) -> Result<Self> {
        let tops = nodes::tops(shards)?;
        let name = ParsedDn::new(suffix.as_bytes());
        let mut all = tops.iter();
        let own = all.find(|(normal, _)| ParsedDn::new(normal).key() == name.key());
        let only = (tops.len() == 1).then(|| &tops[0]);
        let missing = || {
            let message = format!("there is no entry {suffix} to bear contextCSN");
            Error::new(Code::RootMissing, message)
        };
        let (_, bearer) = own.or(only).ok_or_else(missing)?;
        Ok(Self { bearer: *bearer, entry_csn: number(shards, b"entryCSN") })
    }
}

fn number(shards: &Shards, name: &[u8]) -> Option<u32> {
    let at = shards.descriptions.iter().position(|text| text == name)?;
    u32::try_from(at + 1).ok()
}

/// The bearer's value with contextCSN; it gets a number of its own when that is the first.
pub fn stamped(shards: &mut Shards, value: &[u8], newest: &ContextCsns) -> Result<Vec<u8>> {
    let name = b"contextCSN";
    let next = u32::try_from(shards.descriptions.len() + 1).unwrap_or(u32::MAX);
    let known = number(shards, name);
    let stamped = backmdb::context::with_context(value, known.unwrap_or(next), newest)?;
    if known.is_none() && stamped != value {
        shards.descriptions.push(name.to_vec());
    }
    Ok(stamped)
}
