//! Slow path: children before their parents, duplicate DNs, missing parents, or a live server where many entries came
//! twice. It renumbers the tree and rewrites the tables that were written in the order of the input.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use codec::tables;
use common::WithCode;
use extsort::{RecordSorter, Spool};
use lmdbfile::{Cursor, FileWriter, Reader};
use rustc_hash::{FxHashMap, FxHashSet};
use schema::Schema;

use crate::copied::RewritePlan;
use crate::gather::{EncodedInput, TempStorage};
use crate::join::ParentTable;
use crate::late_rejects::LateRejects;
use crate::names::{self, Name, SUFFIX};
use crate::numbering::{ABOVE, LateParent, NOTHING, Numbering};
use crate::rows::MultivalRow;
use crate::shared::BuildContext;
use crate::{Code, Error, Result};

/// The key of the entry with the empty DN, which keeps its ID.
pub const ROOT: [u8; 8] = [0; 8];

/// Numbers the entries; afterwards the data in `gathered` follow the new IDs.
pub fn reorder(
    gathered: &mut EncodedInput,
    joined: &ParentTable,
    shared: &BuildContext<'_>,
    temp: &TempStorage,
    out: &Path,
    create: impl Fn() -> Result<FileWriter>,
) -> Result<Numbering> {
    let parents = parents(gathered, joined)?;
    let (numbering, holes) = Numbering::of_parents(&parents);
    let written = FirstPassTable::finish(gathered, out, create)?;
    if let Some(live) = &mut gathered.live {
        live.renumbered = true;
    } else {
        let outcasts = LateRejects::find(gathered, joined, &numbering, shared.options.max_rejects)?;
        gathered.rejections.extend(outcasts.rejections(&written, shared)?);
    }
    if gathered.rejections.len() as u64 > shared.options.max_rejects {
        return Ok(numbering);
    }
    RewritePlan::new(&written, &numbering, parents.len(), &holes, shared.counters).run(gathered, temp)?;
    let spelled = spelled(gathered, &holes, shared.schema)?;
    gathered.names = names_by_id(&gathered.names, &numbering, &spelled, temp)?;
    gathered.rows = rows_by_id(&gathered.rows, &numbering, temp)?;
    Ok(numbering)
}

/// Returns the parent of each position.
fn parents(gathered: &EncodedInput, joined: &ParentTable) -> Result<Vec<u32>> {
    let mut parents = vec![NOTHING; usize::try_from(gathered.positions()).unwrap_or(usize::MAX)];
    each_name(&gathered.names, |name, _| {
        let answer = if name.question == SUFFIX { ABOVE } else { joined.answers[name.question as usize] };
        parents[name.position as usize] = answer;
        Ok(())
    })?;
    for &(duplicate, _) in &joined.duplicates {
        parents[duplicate as usize] = NOTHING;
    }
    Ok(parents)
}

fn each_name(names: &Spool, mut visit: impl FnMut(&Name<'_>, &[u8]) -> Result<()>) -> Result<()> {
    let mut reader = names.reader();
    while let Some(record) = reader.next()? {
        visit(&names::read(record), record)?;
    }
    Ok(())
}

/// The id2e of the first pass, in the order of the input.
pub struct FirstPassTable {
    reader: Reader,
    /// Input positions of entries that got no ID in the first pass.
    vacant: Vec<u32>,
}

impl FirstPassTable {
    /// Closes the file, and creates a new one in its place.
    fn finish(gathered: &mut EncodedInput, out: &Path, create: impl Fn() -> Result<FileWriter>) -> Result<Self> {
        let aside: PathBuf = out.with_extension("unordered");
        std::fs::rename(out, &aside)?;
        let fresh = create()?;
        let layout = fresh.layout();
        let tree = std::mem::replace(&mut gathered.id2e, tables::ID2E.writer(layout));
        let mut file = std::mem::replace(&mut gathered.file, fresh);
        let table = tree.finish(&mut file)?;
        file.finish(vec![(b"id2e".to_vec(), table)])?;
        let reader = Reader::open(&aside)?;
        std::fs::remove_file(&aside)?;
        Ok(Self { reader, vacant: gathered.positions_without_id() })
    }

    pub fn old_id(&self, position: u32) -> u64 {
        let before = self.vacant.partition_point(|vacant| *vacant < position);
        u64::from(position) + 1 - before as u64
    }

    pub fn cursor(&self) -> Result<Cursor<'_>> {
        let table = self.reader.table(b"id2e").ok_or_else(lost)?;
        Ok(table.cursor()?)
    }

    /// Returns the value of the entry at `position`.
    pub fn value(&self, position: u32) -> Result<Vec<u8>> {
        let (mut cursor, id) = (self.cursor()?, self.old_id(position));
        cursor.seek(&id.to_ne_bytes())?;
        Ok(at(cursor.next()?, id)?.to_vec())
    }
}

/// Returns the value of the record that was read, if its key is `id`.
pub fn at<'a>(found: Option<(&[u8], &'a [u8])>, id: u64) -> Result<&'a [u8]> {
    let own = found.filter(|(key, _)| *key == id.to_ne_bytes());
    own.map(|(_, value)| value).ok_or_else(lost)
}

fn lost() -> Error {
    Error::new(Code::Damaged, "a written entry cannot be read back")
}

/// Returns the spelling of nodes whose entries came after a descendant: that of the first descendant, as in slapd. A
/// suffix's node has all its RDNs (`mdb_dn2id_add` in OpenLDAP's back-mdb/dn2id.c), any other node has one.
fn spelled(gathered: &EncodedInput, holes: &[LateParent], schema: &Schema) -> Result<FxHashMap<u32, Vec<u8>>> {
    let mut askers: FxHashMap<u32, Vec<&LateParent>> = FxHashMap::default();
    for hole in holes {
        askers.entry(hole.descendant).or_default().push(hole);
    }
    let late: FxHashSet<u32> = holes.iter().map(|hole| hole.position).collect();
    let mut questions: FxHashMap<u32, u32> = FxHashMap::default();
    let mut suffixes: FxHashSet<u32> = FxHashSet::default();
    each_name(&gathered.names, |name, _| {
        if name.question == SUFFIX && late.contains(&name.position) {
            suffixes.insert(name.position);
        }
        if askers.contains_key(&name.position) {
            questions.insert(name.question, name.position);
        }
        Ok(())
    })?;
    let (mut found, mut reader, mut number) = (FxHashMap::default(), gathered.asked.reader(), 0);
    while let Some(text) = reader.next()? {
        if let Some(asker) = questions.get(&number) {
            let dn = schema.dn(text).with_code(Code::Damaged)?;
            for hole in &askers[asker] {
                let above = dn.rdns.get(hole.above - 1..).unwrap_or_default();
                let rdns = if suffixes.contains(&hole.position) { above.len() } else { 1 };
                let node: Vec<&[u8]> = above.iter().take(rdns).map(|rdn| rdn.pretty.as_slice()).collect();
                found.insert(hole.position, node.join(&b','));
            }
        }
        number += 1;
    }
    Ok(found)
}

fn names_by_id(
    names: &Spool,
    numbering: &Numbering,
    spelled: &FxHashMap<u32, Vec<u8>>,
    temp: &TempStorage,
) -> Result<Spool> {
    let mut sorter = sorter(temp);
    let mut respelled = Vec::new();
    each_name(names, |name, record| {
        let Some(id) = numbering.id(name.position) else { return Ok(()) };
        let record = match spelled.get(&name.position) {
            Some(pretty) => {
                respelled.clear();
                respelled.extend_from_slice(&record[..record.len() - name.pretty.len()]);
                respelled.extend_from_slice(pretty);
                &respelled
            }
            None => record,
        };
        sorter.push(u128::from(id), record)
    })?;
    into_spool(sorter, temp, 8)
}

fn rows_by_id(rows: &Spool, numbering: &Numbering, temp: &TempStorage) -> Result<Spool> {
    let (mut sorter, mut reader, mut number) = (sorter(temp), rows.reader(), 0u64);
    while let Some(row) = reader.next()? {
        if let Some(id) = numbering.id(MultivalRow::read(row).position) {
            sorter.push(u128::from(id) << 64 | u128::from(number), row)?;
        }
        number += 1;
    }
    into_spool(sorter, temp, 16)
}

pub fn sorter(temp: &TempStorage) -> RecordSorter {
    RecordSorter::new(temp.memory / 4, temp.threads, &temp.scratch, &temp.stop)
}

fn into_spool(sorter: RecordSorter, temp: &TempStorage, part: usize) -> Result<Spool> {
    let mut spool = temp.spool(part);
    let mut records = sorter.finish()?;
    while let Some((_, record)) = records.next()? {
        spool.append(record)?;
    }
    Ok(spool)
}

/// Returns the path with the index of a spooled name.
pub fn path_of(gathered: &EncodedInput, index: u32) -> Option<Arc<PathBuf>> {
    (index as usize).checked_sub(1).and_then(|index| gathered.paths.get(index)).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_another_id_is_not_taken() {
        let found = 3u64.to_ne_bytes();
        assert_eq!(at(Some((&found[..], b"x")), 3).unwrap(), b"x");
        for found in [Some((&found[..], &b"x"[..])), None] {
            assert_eq!(at(found, 2).unwrap_err().code, Code::Damaged);
        }
    }
}
