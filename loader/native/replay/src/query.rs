//! Finds the operations of an author, or on a subtree, in a cn=accesslog.

use std::collections::BTreeMap;
use std::path::PathBuf;

use common::{Counters, Result};
use ldif::{Input, Record};
use rustc_hash::FxHashSet;
use tree::csn::pack;

use crate::Selected;
use crate::operation::{Operation, Type};

/// Which operations to find. `since` and `until` are the first and the last CSN of the range. If a log entry has the
/// reqStart `since_start` or `until_start`, its CSN replaces that bound.
#[derive(Debug, Clone)]
pub struct Query {
    pub since: String,
    pub since_start: String,
    pub until: String,
    pub until_start: String,
    /// DNs of subtrees; an empty list means the whole log.
    pub bases: Vec<String>,
    /// reqAuthzID; `None` means any author.
    pub author: Option<String>,
    /// Maximum number of operations; only the last matches are returned. 0 means all matches, and later operations that
    /// may depend on them.
    pub last: usize,
}

#[derive(Debug, Default)]
pub struct Found {
    /// The LDIF records of operations in the order of their CSNs.
    pub text: Vec<u8>,
    /// Whether each record's operation matches. If not, it is a later operation that may concern the same entries.
    pub matching: Vec<bool>,
    /// The oldest CSN in the log.
    pub log_start: String,
}

/// Searches `log`: LDIF files in the order of the log's entry IDs. Leaves out failed and rolled-back operations.
pub fn query(log: &[PathBuf], query: &Query, counters: &Counters) -> Result<Found> {
    let bases: Vec<_> = query.bases.iter().map(|base| key(base.as_bytes())).collect();
    let author = query.author.as_ref().map(|author| key(author.as_bytes()));
    let (mut since, mut until) = (pack(query.since.as_bytes()), pack(query.until.as_bytes()));
    let mut transactions = Selected::default();
    let (mut related, mut position) = (Related::default(), 0_u64);
    let mut records = BTreeMap::new();
    let mut log_start = String::new();
    let mut select = |record: &Record<'_>| {
        let operation = Operation::read(record, false)?;
        position += 1;
        let csn = pack(operation.csn.as_bytes());
        if operation.kind.is_none() || csn == 0 {
            return Ok(());
        }
        transactions.track_transaction(&operation, position);
        if log_start.is_empty() || csn < pack(log_start.as_bytes()) {
            log_start.clone_from(&operation.csn);
        }
        for (bound, start) in [(&mut since, &query.since_start), (&mut until, &query.until_start)] {
            if operation.start == *start {
                *bound = csn;
            }
        }
        if operation.failed || csn < since {
            return Ok(());
        }
        let names = names(&operation);
        // A reqStart is never later than the CSN, so the operation with the reqStart `until_start` may still come.
        let matches = (csn <= until || operation.start <= query.until_start)
            && author.as_ref().is_none_or(|author| *author == key(operation.author.as_bytes()))
            && (bases.is_empty() || names.iter().any(|name| bases.iter().any(|base| above(name).any(|at| at == base))));
        if query.last == 0 && matches {
            related.add(&operation, &names);
        } else if !matches && (query.last > 0 || !related.has(&operation, &names)) {
            return Ok(());
        }
        records.insert((csn, position), (matches, record.bytes.to_vec()));
        if query.last > 0 && records.len() > query.last {
            records.pop_first();
        }
        Ok(())
    };
    for path in log {
        ldif::walk::each_record(Input::from_path(path, counters)?, counters, &mut select)?;
    }
    transactions.settle_transactions();
    let mut done = Found { log_start, ..Found::default() };
    for ((csn, position), (matches, bytes)) in records {
        if csn >= since && !transactions.rolled_back.contains(&position) {
            done.text.extend(bytes);
            done.text.extend(b"\n\n");
            done.matching.push(matches && csn <= until);
        }
    }
    Ok(done)
}

fn key(dn: &[u8]) -> Vec<u8> {
    schema::dn_key(dn).unwrap_or_else(|_| dn.to_ascii_lowercase())
}

/// Returns the keys of the entry's DN, and of its new DN if the operation renames it.
fn names(operation: &Operation) -> Vec<Vec<u8>> {
    let mut names = vec![key(&operation.dn)];
    if operation.kind == Some(Type::Rename) {
        let parent = schema::split_leaf(&operation.dn).map_or(&b""[..], |(_, parent)| parent);
        let parent = operation.new_superior.as_deref().unwrap_or(parent);
        names.push(key(&[&operation.new_rdn, parent].join(&b',')));
    }
    names
}

/// Returns the key of a DN, then the keys of all DNs above it. The last key is empty.
fn above(key: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::successors(Some(key), |key| {
        let comma = key.iter().position(|byte| *byte == b',');
        (!key.is_empty()).then(|| comma.map_or(&b""[..], |comma| &key[comma + 1..]))
    })
}

/// The entries that the matching operations concern.
#[derive(Debug, Default)]
struct Related {
    uuids: FxHashSet<u128>,
    /// Keys of the entries' DNs, and of all DNs above them.
    names: FxHashSet<Vec<u8>>,
    /// Keys of the DNs of added entries.
    added: FxHashSet<Vec<u8>>,
}

impl Related {
    fn add(&mut self, operation: &Operation, names: &[Vec<u8>]) {
        self.uuids.extend(operation.uuid);
        for name in names {
            if operation.kind == Some(Type::Add) {
                self.added.insert(name.clone());
            }
            let new = above(name).take_while(|name| !self.names.contains(*name));
            let new: Vec<_> = new.map(<[u8]>::to_vec).collect();
            self.names.extend(new);
        }
    }

    /// Whether the operation may concern one of the entries, or an entry above or below them. A rename always may.
    fn has(&self, operation: &Operation, names: &[Vec<u8>]) -> bool {
        operation.uuid.is_some_and(|uuid| self.uuids.contains(&uuid))
            || match operation.kind {
                Some(Type::Rename) => !self.names.is_empty(),
                Some(Type::Modify) if operation.uuid.is_some() => false,
                _ => {
                    names.iter().any(|name| self.names.contains(name) || above(name).any(|at| self.added.contains(at)))
                }
            }
    }
}
