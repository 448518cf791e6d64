//! Computes the contextCSN of the suffix entry like `slapadd -w` (`servers/slapd/slapcommon.c`).

use std::collections::BTreeMap;

use tree::csn;

use crate::{Code, Error, Result, damaged_entry};
use codec::id2e::{self, Attribute, ValueList};

/// Returns the entry's value with contextCSN, whose number in ad2i is `number`. The value is unchanged if no CSN in
/// `newest` (server ID -> greatest entryCSN) is newer than the entry's contextCSN. Fails if the entry has its contextCSN
/// in id2v, or gets more than `most` values, which belong there: slapadd leaves id2v as it is.
pub fn with_context(value: &[u8], number: u32, most: u32, newest: &BTreeMap<u16, Vec<u8>>) -> Result<Vec<u8>> {
    let parts = id2e::read(value).ok_or_else(damaged_entry)?;
    let context = parts.attributes.iter().find(|attribute| attribute.number == number);
    let is_apart = context.is_some_and(|context| context.apart);
    let before = context.map(|context| if context.has_normals { &context.normals } else { &context.values });
    match merge(before.map_or(&[], |csns| &csns[..]), newest) {
        Some(merged) if is_apart || merged.len() > most as usize => {
            Err(Error::new(Code::Unproven, "multival: contextCSN belongs in id2v, which -w does not change"))
        }
        Some(merged) => replaced(value, number, merged.iter().map(Vec::as_slice)),
        None => Ok(value.to_vec()),
    }
}

/// Returns the entry's value with `csns` as the values of contextCSN, in place of any values that it has.
pub(crate) fn replaced<'c>(value: &'c [u8], number: u32, csns: impl Iterator<Item = &'c [u8]>) -> Result<Vec<u8>> {
    let values: ValueList<'_> = csns.collect();
    let count = u32::try_from(values.len()).unwrap_or(u32::MAX);
    let context = Attribute { number, count, values, ..Attribute::default() };
    let parts = id2e::read(value).ok_or_else(damaged_entry)?;
    Ok(id2e::write(&parts.with(context)))
}

/// Returns the greatest CSN of each server, by ascending server ID; `None` if no CSN in `newest` is newer than those
/// in `before`.
fn merge(before: &[&[u8]], newest: &BTreeMap<u16, Vec<u8>>) -> Option<Vec<Vec<u8>>> {
    let mut merged: BTreeMap<u16, Vec<u8>> = BTreeMap::new();
    merged.extend(before.iter().filter_map(|text| Some((csn::sid(text)?, text.to_vec()))));
    let mut changed = false;
    for (sid, text) in newest {
        if merged.get(sid).is_none_or(|before| before < text) {
            merged.insert(*sid, text.clone());
            changed = true;
        }
    }
    changed.then(|| merged.into_values().collect())
}
