//! Rejected entries: the error if there are too many, and the entries that are rejected after all input was read,
//! because their DN is a duplicate or their parent is missing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use codec::id2e::{self, Attribute, ValueList};
use codec::id2v;
use common::WithCode;
use rustc_hash::FxHashMap;

use crate::encoded::{MultivalRecord, Rejection};
use crate::gather::{EncodedInput, MORE_REJECTS};
use crate::join::ParentTable;
use crate::names::{self, SUFFIX};
use crate::numbering::Numbering;
use crate::operational::Operational;
use crate::reorder::FirstPassTable;
use crate::rows::MultivalRow;
use crate::shared::BuildContext;
use crate::{Code, Error, Result, damaged_entry};

/// Returns the error for too many rejections. If all of them are orphans, the error names the first missing parent.
pub fn too_many(rejections: &[Rejection]) -> Error {
    let count = rejections.len();
    let all_orphans = rejections.iter().all(|rejection| rejection.orphan);
    let orphan = rejections.iter().find(|rejection| all_orphans && rejection.missing.is_some());
    if let Some((orphan, parent)) = orphan.and_then(|orphan| Some((orphan, orphan.missing.as_deref()?))) {
        let below = if count > 1 { format!("; {count} entries lack theirs") } else { String::new() };
        let message = format!("the parent of {}{below}", orphan.dn);
        return located(orphan, parent, Error::new(Code::MissingParents, message));
    }
    let first = &rejections[0];
    let more = if count > 1 { format!("; {} more", count - 1) } else { String::new() };
    located(first, &first.dn, Error::new(Code::Rejected, format!("{}{more}", first.reason)))
}

fn located(rejection: &Rejection, dn: &str, error: Error) -> Error {
    let path = rejection.path.as_deref().map(PathBuf::as_path);
    error.in_file(path).at(rejection.line).of_entry(Some(dn.as_bytes()))
}

#[derive(Default)]
pub struct LateRejects {
    rejects: Vec<LateReject>,
    /// File and line of each first entry with a duplicated DN, by its position.
    firsts: FxHashMap<u32, String>,
    /// DNs of parents, by question number.
    parents: BTreeMap<u32, Vec<u8>>,
    /// The rows that the rejected entries would have had in id2v, by position.
    rows: FxHashMap<u32, Vec<MultivalRecord>>,
}

struct LateReject {
    position: u32,
    question: u32,
    path: Option<Arc<PathBuf>>,
    line: u64,
    pretty: Vec<u8>,
    generated_uuid: bool,
    reason: RejectReason,
}

#[derive(Debug, Clone, Copy)]
enum RejectReason {
    /// Another entry has the same DN. The number is the position of the first such entry.
    Duplicate(u32),
    ParentMissing,
    ParentRejected,
}

impl LateRejects {
    /// Finds the rejected entries, at most [`MORE_REJECTS`] more than `max_rejects`.
    pub fn find(
        gathered: &EncodedInput,
        joined: &ParentTable,
        numbering: &Numbering,
        max_rejects: u64,
    ) -> Result<Self> {
        let duplicates: FxHashMap<u32, u32> = joined.duplicates.iter().copied().collect();
        let most = usize::try_from(max_rejects.saturating_add(MORE_REJECTS)).unwrap_or(usize::MAX);
        let mut late = Self::default();
        names::each(&gathered.names, |name, _| {
            if numbering.id(name.position).is_some() || late.rejects.len() >= most {
                return Ok(());
            }
            let reason = match duplicates.get(&name.position) {
                Some(&first) => RejectReason::Duplicate(first),
                None if joined.is_missing(name.question) => RejectReason::ParentMissing,
                None => RejectReason::ParentRejected,
            };
            if let RejectReason::Duplicate(first) = reason {
                late.firsts.insert(first, String::new());
            }
            late.parents.insert(name.question, Vec::new());
            late.rows.insert(name.position, Vec::new());
            late.rejects.push(LateReject {
                position: name.position,
                question: name.question,
                path: gathered.path(name.path),
                line: name.line,
                pretty: name.pretty.to_vec(),
                generated_uuid: name.generated_uuid,
                reason,
            });
            Ok(())
        })?;
        names::each(&gathered.names, |name, _| {
            if let Some(location) = late.firsts.get_mut(&name.position) {
                let path = gathered.path(name.path);
                let path = path.map_or_else(String::new, |path| format!("{}, ", path.display()));
                *location = format!("{path}line {}", name.line);
            }
            Ok(())
        })?;
        gathered.each_question(|question, dn| {
            if let Some(parent) = late.parents.get_mut(&question) {
                *parent = dn.to_vec();
            }
            Ok(())
        })?;
        late.find_rows(gathered)?;
        Ok(late)
    }

    fn find_rows(&mut self, gathered: &EncodedInput) -> Result<()> {
        let mut reader = gathered.rows.reader();
        while let Some(row) = reader.next()? {
            let row = MultivalRow::read(row);
            if let Some(rows) = self.rows.get_mut(&row.position) {
                rows.push(MultivalRecord { column: row.column, record: row.record.to_vec() });
            }
        }
        Ok(())
    }

    /// Returns the rejections, with the entries decoded from their values in `written`.
    pub fn rejections(self, written: &FirstPassTable, shared: &BuildContext<'_>) -> Result<Vec<Rejection>> {
        let creator = Operational::creator(shared.schema, shared.settings);
        let creator = creator.with_code(Code::Schema)?.pretty();
        let decoder = LdifDecoder { descriptions: shared.columns.numbered(), creator };
        self.rejects.iter().map(|reject| self.rejection(reject, written, &decoder)).collect()
    }

    fn rejection(&self, reject: &LateReject, written: &FirstPassTable, decoder: &LdifDecoder) -> Result<Rejection> {
        let parent = if reject.question == SUFFIX { &[][..] } else { &self.parents[&reject.question] };
        let comma = if parent.is_empty() { &b""[..] } else { b"," };
        let dn = [&reject.pretty[..], comma, parent].concat();
        let parent = String::from_utf8_lossy(parent);
        let reason = match reject.reason {
            RejectReason::Duplicate(first) => {
                format!("an earlier entry has this DN ({})", self.firsts[&first])
            }
            RejectReason::ParentMissing => format!("its parent {parent} is missing"),
            RejectReason::ParentRejected => format!("its parent {parent} was rejected"),
        };
        let rows = &self.rows[&reject.position];
        Ok(Rejection {
            position: reject.position,
            path: reject.path.clone(),
            line: reject.line,
            reason,
            orphan: !matches!(reject.reason, RejectReason::Duplicate(_)),
            missing: matches!(reject.reason, RejectReason::ParentMissing).then(|| parent.to_string()),
            text: decoder.text(&dn, &written.value(reject.position)?, rows, reject.generated_uuid)?,
            dn: String::from_utf8_lossy(&dn).into_owned(),
        })
    }
}

/// Decodes stored entries to LDIF.
struct LdifDecoder {
    /// Attribute descriptions by number, from 1.
    descriptions: Vec<String>,
    creator: Vec<u8>,
}

impl LdifDecoder {
    /// Returns the entry as it was in the input, without attributes that a build adds. `rows`: its rows for id2v.
    fn text(&self, dn: &[u8], value: &[u8], rows: &[MultivalRecord], generated_uuid: bool) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        ldif::write::line(&mut out, b"dn", dn);
        for attribute in &id2e::read(value).ok_or_else(damaged_entry)?.attributes {
            let index = (attribute.number as usize).checked_sub(1);
            let name = index.and_then(|index| self.descriptions.get(index)).ok_or_else(damaged_entry)?;
            if !self.is_generated(name, attribute, generated_uuid) {
                for value in values(attribute, rows).ok_or_else(damaged_entry)? {
                    ldif::write::line(&mut out, name.as_bytes(), value);
                }
            }
        }
        Ok(out)
    }

    /// Returns true for an attribute that the build added or would add. Generated times and CSNs have no normal forms.
    fn is_generated(&self, name: &str, attribute: &Attribute<'_>, generated_uuid: bool) -> bool {
        match name {
            "structuralObjectClass" => true,
            "entryUUID" => generated_uuid,
            "createTimestamp" | "modifyTimestamp" | "entryCSN" => !attribute.has_normals,
            "creatorsName" | "modifiersName" => *attribute.values == [self.creator.as_slice()],
            _ => false,
        }
    }
}

/// Returns the values of an attribute from id2e or id2v; `None` if rows are missing or cannot be read.
fn values<'a>(attribute: &Attribute<'a>, rows: &'a [MultivalRecord]) -> Option<ValueList<'a>> {
    if !attribute.apart {
        return Some(attribute.values.clone());
    }
    let own = rows.iter().filter(|row| u32::from(row.column) == attribute.number);
    let read = |row: &'a MultivalRecord| id2v::read_row(&row.record, attribute.has_normals);
    let values: ValueList<'_> = own.map(|row| Some(read(row)?.1)).collect::<Option<_>>()?;
    (!values.is_empty()).then_some(values)
}
