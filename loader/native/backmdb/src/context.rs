//! Computes contextCSN of the suffix entry like `slapadd -w` (`servers/slapd/slapcommon.c`).

use std::collections::BTreeMap;

use tree::csn;

use crate::{Result, damaged_entry};
use codec::id2e::{self, Attribute};

/// Returns the entry's value with contextCSN under `number`; unchanged if no CSN is newer than those it has.
///
/// `newest`: server ID -> greatest entryCSN.
pub fn with_context(value: &[u8], number: u32, newest: &BTreeMap<u16, Vec<u8>>) -> Result<Vec<u8>> {
    let Some(merged) = merge(&texts(value, number)?, newest) else {
        return Ok(value.to_vec());
    };
    let context = Attribute {
        number,
        count: u32::try_from(merged.len()).unwrap_or(u32::MAX),
        values: merged.iter().map(Vec::as_slice).collect(),
        ..Attribute::default()
    };
    let parts = id2e::read(value).ok_or_else(damaged_entry)?;
    Ok(id2e::write(&parts.with(context)))
}

/// Returns the values of the attribute `number` in normal form.
fn texts(value: &[u8], number: u32) -> Result<Vec<Vec<u8>>> {
    let parts = id2e::read(value).ok_or_else(damaged_entry)?;
    let known = parts.attributes.iter().find(|one| one.number == number);
    Ok(known.map_or_else(Vec::new, |one| {
        let texts = if one.has_normals { &one.normals } else { &one.values };
        texts.iter().map(|text| text.to_vec()).collect()
    }))
}

/// Returns the merged CSNs by ascending server ID; `None` if none is newer.
fn merge(had: &[Vec<u8>], newest: &BTreeMap<u16, Vec<u8>>) -> Option<Vec<Vec<u8>>> {
    let sid = |text: &[u8]| csn::sid(text).and_then(|sid| u16::from_str_radix(&sid, 16).ok());
    let mut merged: BTreeMap<u16, Vec<u8>> = BTreeMap::new();
    merged.extend(had.iter().filter_map(|text| Some((sid(text)?, text.clone()))));
    let mut changed = false;
    for (sid, text) in newest {
        if merged.get(sid).is_none_or(|had| had < text) {
            merged.insert(*sid, text.clone());
            changed = true;
        }
    }
    changed.then(|| merged.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csn(second: u8, sid: u16) -> Vec<u8> {
        format!("202601010000{second:02}.000000Z#000000#{sid:03x}#000000").into_bytes()
    }

    #[test]
    fn the_newest_csn_of_each_server_in_the_order_of_server_ids() {
        let newest = BTreeMap::from([(2, csn(5, 2)), (1, csn(1, 1))]);
        assert_eq!(merge(&[], &newest), Some(vec![csn(1, 1), csn(5, 2)]));
        assert_eq!(merge(&[csn(9, 2), csn(3, 4)], &newest), Some(vec![csn(1, 1), csn(9, 2), csn(3, 4)]));
        assert_eq!(merge(&[csn(5, 2), csn(1, 1)], &newest), None);
    }
}
