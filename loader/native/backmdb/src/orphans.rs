//! Finds entries whose parent is missing.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use tree::Orphan;

use crate::Result;
use crate::gather::EncodedInput;
use crate::join::ParentTable;
use crate::names;
use crate::numbering::MISSING;
use crate::superseded::Superseded;

/// Returns the first child of each missing parent.
pub fn find(gathered: &EncodedInput, joined: &ParentTable, overtaken: &Superseded) -> Result<Vec<Orphan>> {
    let answers = (0u32..).zip(&joined.answers);
    let missing: FxHashSet<u32> =
        answers.filter(|(_, answer)| **answer == MISSING).map(|(question, _)| question).collect();
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let children = children(gathered, &missing, overtaken)?;
    let parents = parents(gathered, &children)?;
    let mut uuids = uuids(gathered, &children)?;
    let mut found: BTreeMap<&[u8], Orphan> = BTreeMap::new();
    for (question, (position, rdn)) in &children {
        let parent = parents.get(question).map_or(&[][..], Vec::as_slice);
        found.entry(parent).or_insert_with(|| Orphan {
            parent: String::from_utf8_lossy(parent).into_owned(),
            dn: String::from_utf8_lossy(&[rdn, &b","[..], parent].concat()).into_owned(),
            uuid: uuids.remove(position).unwrap_or_default(),
        });
    }
    Ok(found.into_values().collect())
}

/// Returns the positions of entries without a path to a suffix. Questions for such entries get the answer "missing".
pub fn without_path_to_suffix(
    gathered: &EncodedInput,
    joined: &mut ParentTable,
    overtaken: &Superseded,
) -> Result<FxHashSet<u32>> {
    let mut lost = FxHashSet::default();
    let mut more = joined.answers.contains(&MISSING);
    while more {
        let mut found = FxHashSet::default();
        let mut reader = gathered.names.reader();
        while let Some(record) = reader.next()? {
            let name = names::read(record);
            if joined.answers.get(name.question as usize) == Some(&MISSING)
                && !overtaken.contains(name.position)
                && lost.insert(name.position)
            {
                found.insert(name.position);
            }
        }
        more = !found.is_empty();
        for answer in joined.answers.iter_mut().filter(|answer| found.contains(answer)) {
            *answer = MISSING;
        }
    }
    Ok(lost)
}

/// Returns, by question number, the position and RDN of the first child.
fn children(
    gathered: &EncodedInput,
    missing: &FxHashSet<u32>,
    overtaken: &Superseded,
) -> Result<BTreeMap<u32, (u32, Vec<u8>)>> {
    let (mut found, mut reader) = (BTreeMap::new(), gathered.names.reader());
    while let Some(record) = reader.next()? {
        let name = names::read(record);
        if missing.contains(&name.question) && !overtaken.contains(name.position) {
            found.entry(name.question).or_insert_with(|| (name.position, name.pretty.to_vec()));
        }
    }
    Ok(found)
}

/// Returns, by question number, the parent's DN as its first child spells it.
fn parents(gathered: &EncodedInput, children: &BTreeMap<u32, (u32, Vec<u8>)>) -> Result<FxHashMap<u32, Vec<u8>>> {
    let (mut found, mut reader, mut question) = (FxHashMap::default(), gathered.asked.reader(), 0);
    while let Some(text) = reader.next()? {
        if children.contains_key(&question) {
            found.insert(question, text.to_vec());
        }
        question += 1;
    }
    Ok(found)
}

/// Returns the entryUUIDs by position.
fn uuids(gathered: &EncodedInput, children: &BTreeMap<u32, (u32, Vec<u8>)>) -> Result<FxHashMap<u32, String>> {
    let positions: FxHashSet<u32> = children.values().map(|(position, _)| *position).collect();
    let mut found = FxHashMap::default();
    if let Some(live) = &gathered.live {
        live.each_key(|met| {
            if met.key.uuid != 0 && positions.contains(&met.position) {
                let text = values::uuid::spelled(met.key.uuid);
                found.insert(met.position, String::from_utf8_lossy(&text).into_owned());
            }
            Ok(())
        })?;
    }
    Ok(found)
}
