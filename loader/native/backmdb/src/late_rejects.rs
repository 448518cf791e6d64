//! Entries rejected after all input was read: their DN is a duplicate, or their parent is missing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use common::WithCode;
use rustc_hash::FxHashMap;

use crate::encoded::{MultivalRecord, Rejection};
use crate::gather::{EncodedInput, MORE_REJECTS};
use crate::join::ParentTable;
use crate::names::{self, SUFFIX};
use crate::numbering::{MISSING, Numbering};
use crate::operational::Operational;
use crate::reject_text::LdifDecoder;
use crate::reorder::{FirstPassTable, path_of};
use crate::rows::MultivalRow;
use crate::shared::BuildContext;
use crate::{Code, Result};

#[derive(Default)]
pub struct LateRejects {
    found: Vec<LateReject>,
    /// File and line of the first entry of each duplicate DN, by its position.
    firsts: FxHashMap<u32, String>,
    /// DNs of parents, by question number.
    parents: BTreeMap<u32, Vec<u8>>,
    /// The rows in id2v that the rejected entries would have had, by position.
    rows: FxHashMap<u32, Vec<MultivalRecord>>,
}

struct LateReject {
    position: u32,
    question: u32,
    path: Option<Arc<PathBuf>>,
    line: u64,
    pretty: Vec<u8>,
    made_uuid: bool,
    fault: RejectReason,
}

#[derive(Debug, Clone, Copy)]
enum RejectReason {
    /// The position of the first entry of that DN.
    Duplicate(u32),
    ParentMissing,
    ParentRejected,
}

impl LateRejects {
    /// Finds rejected entries, at most as many as the reject file may have.
    pub fn find(
        gathered: &EncodedInput,
        joined: &ParentTable,
        numbering: &Numbering,
        max_rejects: u64,
    ) -> Result<Self> {
        let duplicates: FxHashMap<u32, u32> = joined.duplicates.iter().copied().collect();
        let most = usize::try_from(max_rejects.saturating_add(MORE_REJECTS)).unwrap_or(usize::MAX);
        let mut outcasts = Self::default();
        let mut reader = gathered.names.reader();
        while let Some(record) = reader.next()? {
            let name = names::read(record);
            if numbering.id(name.position).is_some() || outcasts.found.len() >= most {
                continue;
            }
            let missing = || joined.answers.get(name.question as usize) == Some(&MISSING);
            let fault = match duplicates.get(&name.position) {
                Some(&first) => RejectReason::Duplicate(first),
                None if missing() => RejectReason::ParentMissing,
                None => RejectReason::ParentRejected,
            };
            outcasts.found.push(LateReject {
                position: name.position,
                question: name.question,
                path: path_of(gathered, name.path),
                line: name.line,
                pretty: name.pretty.to_vec(),
                made_uuid: name.made_uuid,
                fault,
            });
        }
        outcasts.find_firsts(gathered)?;
        outcasts.find_parents(gathered)?;
        outcasts.find_rows(gathered)?;
        Ok(outcasts)
    }

    fn find_rows(&mut self, gathered: &EncodedInput) -> Result<()> {
        self.rows = self.found.iter().map(|one| (one.position, Vec::new())).collect();
        let mut reader = gathered.rows.reader();
        while let Some(row) = reader.next()? {
            let row = MultivalRow::read(row);
            if let Some(rows) = self.rows.get_mut(&row.position) {
                rows.push(MultivalRecord { column: row.column, record: row.record.to_vec() });
            }
        }
        Ok(())
    }

    fn find_firsts(&mut self, gathered: &EncodedInput) -> Result<()> {
        let firsts = self.found.iter().filter_map(|one| match one.fault {
            RejectReason::Duplicate(first) => Some((first, String::new())),
            _ => None,
        });
        self.firsts = firsts.collect();
        let mut reader = gathered.names.reader();
        while let Some(record) = reader.next()? {
            let name = names::read(record);
            if let Some(place) = self.firsts.get_mut(&name.position) {
                let path = path_of(gathered, name.path);
                let path = path.map_or_else(String::new, |path| format!("{}, ", path.display()));
                *place = format!("{path}line {}", name.line);
            }
        }
        Ok(())
    }

    fn find_parents(&mut self, gathered: &EncodedInput) -> Result<()> {
        self.parents = self.found.iter().map(|one| (one.question, Vec::new())).collect();
        let (mut reader, mut number) = (gathered.asked.reader(), 0);
        while let Some(text) = reader.next()? {
            if let Some(parent) = self.parents.get_mut(&number) {
                *parent = text.to_vec();
            }
            number += 1;
        }
        Ok(())
    }

    /// Returns the rejections, with the entries decoded from their written values.
    pub fn rejections(self, written: &FirstPassTable, shared: &BuildContext<'_>) -> Result<Vec<Rejection>> {
        let creator = Operational::creator(shared.schema, shared.settings);
        let creator = creator.with_code(Code::Schema)?.pretty();
        let names = LdifDecoder::new(shared.columns.numbered(), creator);
        self.found.iter().map(|one| self.rejection(one, written, &names)).collect()
    }

    fn rejection(&self, one: &LateReject, written: &FirstPassTable, names: &LdifDecoder) -> Result<Rejection> {
        let parent = if one.question == SUFFIX { &[][..] } else { &self.parents[&one.question] };
        let comma = if parent.is_empty() { &b""[..] } else { b"," };
        let dn = [&one.pretty[..], comma, parent].concat();
        let above = String::from_utf8_lossy(parent);
        let reason = match one.fault {
            RejectReason::Duplicate(first) => {
                format!("an earlier entry has this DN ({})", self.firsts[&first])
            }
            RejectReason::ParentMissing => format!("its parent {above} is missing"),
            RejectReason::ParentRejected => format!("its parent {above} was rejected"),
        };
        let rows = self.rows.get(&one.position).map_or(&[][..], Vec::as_slice);
        Ok(Rejection {
            position: one.position,
            path: one.path.clone(),
            line: one.line,
            reason,
            orphan: !matches!(one.fault, RejectReason::Duplicate(_)),
            missing: matches!(one.fault, RejectReason::ParentMissing).then(|| above.to_string()),
            text: names.text(&dn, &written.value(one.position)?, rows, one.made_uuid)?,
            dn: String::from_utf8_lossy(&dn).into_owned(),
        })
    }
}
