//! Finds entries whose parent is missing.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use tree::Orphan;

use crate::gather::EncodedInput;
use crate::join::ParentTable;
use crate::numbering::MISSING;
use crate::superseded::Superseded;
use crate::{Result, names, uuid_text};

/// Returns the first child of each missing parent.
pub fn find(gathered: &EncodedInput, joined: &ParentTable, superseded: &Superseded) -> Result<Vec<Orphan>> {
    if !joined.answers.contains(&MISSING) {
        return Ok(Vec::new());
    }
    // By question number: the position and the RDN of the missing parent's first child.
    let mut children = BTreeMap::new();
    names::each(&gathered.names, |name, _| {
        if joined.is_missing(name.question) && !superseded.contains(name.position) {
            children.entry(name.question).or_insert_with(|| (name.position, name.pretty.to_vec()));
        }
        Ok(())
    })?;
    let mut uuids = uuids(gathered, &children.values().map(|(position, _)| *position).collect())?;
    let mut orphans = BTreeMap::new();
    gathered.each_question(|question, parent| {
        if let Some((position, rdn)) = children.get(&question) {
            orphans.entry(parent.to_vec()).or_insert_with(|| Orphan {
                parent: String::from_utf8_lossy(parent).into_owned(),
                dn: String::from_utf8_lossy(&[rdn, &b","[..], parent].concat()).into_owned(),
                uuid: uuids.remove(position).unwrap_or_default(),
            });
        }
        Ok(())
    })?;
    Ok(orphans.into_values().collect())
}

/// Returns the positions of entries without a path to a suffix, and replaces these positions in answers by [`MISSING`].
pub fn without_path_to_suffix(
    gathered: &EncodedInput,
    joined: &mut ParentTable,
    superseded: &Superseded,
) -> Result<FxHashSet<u32>> {
    let mut lost = FxHashSet::default();
    let mut more = joined.answers.contains(&MISSING);
    while more {
        let mut newly_lost = FxHashSet::default();
        names::each(&gathered.names, |name, _| {
            let is_lost = joined.is_missing(name.question) && !superseded.contains(name.position);
            if is_lost && lost.insert(name.position) {
                newly_lost.insert(name.position);
            }
            Ok(())
        })?;
        more = !newly_lost.is_empty();
        for answer in joined.answers.iter_mut().filter(|answer| newly_lost.contains(answer)) {
            *answer = MISSING;
        }
    }
    Ok(lost)
}

/// Returns the entryUUIDs of the entries at `positions`, by position.
fn uuids(gathered: &EncodedInput, positions: &FxHashSet<u32>) -> Result<FxHashMap<u32, String>> {
    let mut uuids = FxHashMap::default();
    if let Some(live) = &gathered.live {
        live.each_key(|spooled| {
            if spooled.key.uuid != 0 && positions.contains(&spooled.position) {
                uuids.insert(spooled.position, uuid_text(spooled.key.uuid));
            }
            Ok(())
        })?;
    }
    Ok(uuids)
}
