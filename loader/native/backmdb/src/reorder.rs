//! Slow path: children before their parents, duplicate DNs, missing parents, or a live server from which many entries
//! came twice. Assigns new IDs, and rewrites what was written in the order of the input: id2e, names and rows of id2v.

use std::path::Path;

use codec::tables;
use common::WithCode;
use extsort::{RecordSorter, Spool};
use lmdbfile::{Cursor, FileWriter, Reader};
use rustc_hash::{FxHashMap, FxHashSet};
use schema::Schema;

use crate::copied::RewritePlan;
use crate::gather::{EncodedInput, TempStorage};
use crate::join::ParentTable;
use crate::names::{self, SUFFIX};
use crate::numbering::{ABOVE, LateParent, NOTHING, Numbering};
use crate::rejects::LateRejects;
use crate::rows::MultivalRow;
use crate::shared::BuildContext;
use crate::{Code, Error, Result};

/// The key of the entry of the empty DN, which keeps its ID.
pub const ROOT: [u8; 8] = [0; 8];

/// Numbers the entries, and rewrites the data in `gathered` in the order of the new IDs. If too many entries are
/// rejected, nothing is rewritten.
pub fn reorder(
    gathered: &mut EncodedInput,
    joined: &ParentTable,
    shared: &BuildContext<'_>,
    temp: &TempStorage,
    out: &Path,
    create: impl Fn() -> Result<FileWriter>,
) -> Result<Numbering> {
    let parents = parents(gathered, joined)?;
    let (numbering, late_parents) = Numbering::of_parents(&parents);
    let written = FirstPassTable::finish(gathered, out, create)?;
    if let Some(live) = &mut gathered.live {
        live.renumbered = true;
    } else {
        let late = LateRejects::find(gathered, joined, &numbering, shared.options.max_rejects)?;
        gathered.rejections.extend(late.rejections(&written, shared)?);
    }
    if gathered.rejections.len() as u64 > shared.options.max_rejects {
        return Ok(numbering);
    }
    RewritePlan::new(&written, &numbering, parents.len(), &late_parents, shared.counters).run(gathered, temp)?;
    let spellings = spellings(gathered, &late_parents, shared.schema)?;
    gathered.names = names_by_id(&gathered.names, &numbering, &spellings, temp)?;
    gathered.rows = rows_by_id(&gathered.rows, &numbering, temp)?;
    Ok(numbering)
}

/// Returns the position of each entry's parent, by the entry's position.
fn parents(gathered: &EncodedInput, joined: &ParentTable) -> Result<Vec<u32>> {
    let mut parents = vec![NOTHING; usize::try_from(gathered.positions()).unwrap_or(usize::MAX)];
    names::each(&gathered.names, |name, _| {
        let answer = if name.question == SUFFIX { ABOVE } else { joined.answers[name.question as usize] };
        parents[name.position as usize] = answer;
        Ok(())
    })?;
    for &(duplicate, _) in &joined.duplicates {
        parents[duplicate as usize] = NOTHING;
    }
    Ok(parents)
}

/// The id2e of the first pass, in the order of the input.
pub struct FirstPassTable {
    reader: Reader,
    /// Ascending positions that got no ID in the first pass.
    vacant: Vec<u32>,
}

impl FirstPassTable {
    /// Closes the file of the first pass, and creates a new file in its place.
    fn finish(gathered: &mut EncodedInput, out: &Path, create: impl Fn() -> Result<FileWriter>) -> Result<Self> {
        let aside = out.with_extension("unordered");
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

/// Returns the value of a record. Fails if there is no record, or if its key is not `id`.
pub fn at<'a>(record: Option<(&[u8], &'a [u8])>, id: u64) -> Result<&'a [u8]> {
    let own = record.filter(|(key, _)| *key == id.to_ne_bytes());
    own.map(|(_, value)| value).ok_or_else(lost)
}

fn lost() -> Error {
    Error::new(Code::Damaged, "a written entry cannot be read back")
}

/// Returns by position the names of late parents, as the first descendant spells them: slapd keeps this spelling. The
/// node of a suffix has all RDNs of the suffix (`mdb_dn2id_add` in OpenLDAP's back-mdb/dn2id.c), any other node has one
/// RDN.
fn spellings(gathered: &EncodedInput, late_parents: &[LateParent], schema: &Schema) -> Result<FxHashMap<u32, Vec<u8>>> {
    let mut by_descendant: FxHashMap<u32, Vec<&LateParent>> = FxHashMap::default();
    for parent in late_parents {
        by_descendant.entry(parent.descendant).or_default().push(parent);
    }
    let late: FxHashSet<u32> = late_parents.iter().map(|parent| parent.position).collect();
    let mut questions: FxHashMap<u32, u32> = FxHashMap::default();
    let mut suffixes: FxHashSet<u32> = FxHashSet::default();
    names::each(&gathered.names, |name, _| {
        if name.question == SUFFIX && late.contains(&name.position) {
            suffixes.insert(name.position);
        }
        if by_descendant.contains_key(&name.position) {
            questions.insert(name.question, name.position);
        }
        Ok(())
    })?;
    let mut spellings = FxHashMap::default();
    gathered.each_question(|question, parent| {
        let Some(descendant) = questions.get(&question) else { return Ok(()) };
        let dn = schema.dn(parent).with_code(Code::Damaged)?;
        for late in &by_descendant[descendant] {
            let rdns = dn.rdns.get(late.levels - 1..).unwrap_or_default();
            let count = if suffixes.contains(&late.position) { rdns.len() } else { 1 };
            let node: Vec<&[u8]> = rdns.iter().take(count).map(|rdn| rdn.pretty.as_slice()).collect();
            spellings.insert(late.position, node.join(&b','));
        }
        Ok(())
    })?;
    Ok(spellings)
}

fn names_by_id(
    names: &Spool,
    numbering: &Numbering,
    spellings: &FxHashMap<u32, Vec<u8>>,
    temp: &TempStorage,
) -> Result<Spool> {
    let mut sorter = temp.records();
    let mut respelled = Vec::new();
    names::each(names, |name, record| {
        let Some(id) = numbering.id(name.position) else { return Ok(()) };
        let record = match spellings.get(&name.position) {
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
    let (mut sorter, mut reader, mut number) = (temp.records(), rows.reader(), 0u64);
    while let Some(row) = reader.next()? {
        if let Some(id) = numbering.id(MultivalRow::read(row).position) {
            sorter.push(u128::from(id) << 64 | u128::from(number), row)?;
        }
        number += 1;
    }
    into_spool(sorter, temp, 16)
}

fn into_spool(sorter: RecordSorter, temp: &TempStorage, part: usize) -> Result<Spool> {
    let mut spool = temp.spool(part);
    let mut records = sorter.finish()?;
    while let Some((_, record)) = records.next()? {
        spool.append(record)?;
    }
    Ok(spool)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_another_id_is_refused() {
        let key = 3u64.to_ne_bytes();
        assert_eq!(at(Some((&key[..], b"x")), 3).unwrap(), b"x");
        for record in [Some((&key[..], &b"x"[..])), None] {
            assert_eq!(at(record, 2).unwrap_err().code, Code::Damaged);
        }
    }
}
