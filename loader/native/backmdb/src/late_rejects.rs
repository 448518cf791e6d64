//! Entries that turned out not to belong when all was read: their DN comes twice, or their parent never.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use common::WithCode;
use rustc_hash::FxHashMap;

use crate::encoded::Rejection;
use crate::gather::{EncodedInput, MORE_REJECTS};
use crate::join::ParentTable;
use crate::names::{self, SUFFIX};
use crate::numbering::{MISSING, Numbering};
use crate::operational::Operational;
use crate::reorder::{FirstPassTable, path_of};
use crate::shared::BuildContext;
use crate::{Code, Result, damaged_entry};
use codec::id2e;
use codec::id2e::Attribute;

#[derive(Debug, Default)]
pub struct LateRejects {
    found: Vec<LateReject>,
    /// Where the first bearers of DNs that come twice stand.
    firsts: FxHashMap<u32, String>,
    /// DNs of parents by number of the question.
    parents: BTreeMap<u32, Vec<u8>>,
}

#[derive(Debug)]
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
    /// As many as the reject file takes.
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
        Ok(outcasts)
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

    /// With what was written of each.
    pub fn rejections(
        self,
        written: &FirstPassTable,
        shared: &BuildContext<'_>,
    ) -> Result<Vec<Rejection>> {
        let creator = Operational::creator(shared.schema, shared.settings);
        let creator = creator.with_code(Code::Schema)?.pretty();
        let names = LdifDecoder { descriptions: shared.columns.numbered(), creator };
        self.found.iter().map(|one| self.rejection(one, written, &names)).collect()
    }

    fn rejection(
        &self,
        one: &LateReject,
        written: &FirstPassTable,
        names: &LdifDecoder,
    ) -> Result<Rejection> {
        let parent = if one.question == SUFFIX { &[][..] } else { &self.parents[&one.question] };
        let comma = if parent.is_empty() { &b""[..] } else { b"," };
        let dn = [&one.pretty[..], comma, parent].concat();
        let above = String::from_utf8_lossy(parent);
        let reason = match one.fault {
            RejectReason::Duplicate(first) => {
                format!("this DN was there before ({})", self.firsts[&first])
            }
            RejectReason::ParentMissing => format!("its parent {above} is missing"),
            RejectReason::ParentRejected => format!("its parent {above} was rejected"),
        };
        Ok(Rejection {
            position: one.position,
            path: one.path.clone(),
            line: one.line,
            reason,
            orphan: !matches!(one.fault, RejectReason::Duplicate(_)),
            text: names.text(&dn, &written.value(one.position)?, one.made_uuid)?,
            dn: String::from_utf8_lossy(&dn).into_owned(),
        })
    }
}

/// What turns a stored entry into LDIF.
struct LdifDecoder {
    /// By their numbers, from 1.
    descriptions: Vec<String>,
    creator: Vec<u8>,
}

impl LdifDecoder {
    /// The entry as it was given: without what the build added.
    fn text(&self, dn: &[u8], value: &[u8], made_uuid: bool) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        ldif::write::line(&mut out, b"dn", dn);
        for one in &id2e::read(value).ok_or_else(damaged_entry)?.attributes {
            let at = (one.number as usize).checked_sub(1);
            let name = at.and_then(|at| self.descriptions.get(at)).map_or("", String::as_str);
            if !self.is_made(name, one, made_uuid) {
                one.values
                    .iter()
                    .for_each(|value| ldif::write::line(&mut out, name.as_bytes(), value));
            }
        }
        Ok(out)
    }

    /// Times and CSNs that are made have no normal forms; the rest would be made again just so.
    fn is_made(&self, name: &str, one: &Attribute<'_>, made_uuid: bool) -> bool {
        match name {
            "structuralObjectClass" => true,
            "entryUUID" => made_uuid,
            "createTimestamp" | "modifyTimestamp" | "entryCSN" => !one.has_normals,
            "creatorsName" | "modifiersName" => one.values == [self.creator.as_slice()],
            _ => false,
        }
    }
}
