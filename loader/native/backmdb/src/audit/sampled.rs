//! Quick variant of the fourth level of the audit: decodes a sample of the entries, some of them the newest, and looks
//! them up in every index.

use std::collections::BTreeSet;

use codec::dn2i::{self, Node};
use codec::id2e::StoredEntry;
use codec::{id2v, idl};
use lmdbfile::{Reader, TableReader};
use values::keys::Key;

use super::AuditOptions;
use super::entry_checker::EntryChecker;
use super::findings::{Finding, Findings, Kind};
use super::indexes::{ConfiguredIndexes, NOT_THERE, TOO_LONG};
use super::ranges::StopReason;
use super::walk::{MultivalRecords, Tables, values_apart};
use crate::indexer::IndexKeys;
use crate::{Result, damaged_entry};

/// One in `NEWEST` sampled entries is among the newest: an index that was not maintained for a while lacks these.
const NEWEST: u64 = 4;

/// Checks up to [`AuditOptions::sample`] entries. The names of indexes that must be rebuilt are added to `drifted`.
pub fn check(
    options: &AuditOptions<'_>,
    reader: &Reader,
    configured: &ConfiguredIndexes,
    checker: &EntryChecker<'_>,
    findings: &mut Findings,
    drifted: &mut BTreeSet<String>,
) -> Result<()> {
    let Some(tables) = Tables::of(reader) else { return Ok(()) };
    let indexes = configured.indexes.tables.iter().map(|table| reader.table(table.name.as_bytes())).collect();
    let seen = BTreeSet::new();
    let mut sample = EntrySample { options, tables, configured, checker, indexes, seen, findings, drifted };
    sample.require_tables();
    sample.entries().or_else(|reason| reason.report(Kind::Page, findings))
}

struct EntrySample<'a> {
    options: &'a AuditOptions<'a>,
    tables: Tables<'a>,
    configured: &'a ConfiguredIndexes,
    checker: &'a EntryChecker<'a>,
    /// Index tables in the order of the configuration; `None` if the file lacks the table.
    indexes: Vec<Option<TableReader<'a>>>,
    /// Keys whose lists were checked for their length.
    seen: BTreeSet<(usize, Key)>,
    findings: &'a mut Findings,
    drifted: &'a mut BTreeSet<String>,
}

impl EntrySample<'_> {
    fn require_tables(&mut self) {
        for at in 0..self.indexes.len() {
            if self.indexes[at].is_none() {
                self.stale(at, Kind::Index, || Finding::new(NOT_THERE));
            }
        }
    }

    fn stale(&mut self, at: usize, kind: Kind, finding: impl FnOnce() -> Finding) {
        let name = &self.configured.indexes.tables[at].name;
        self.drifted.insert(name.clone());
        self.findings.add(kind, || finding().of_attribute(name));
    }

    fn entries(&mut self) -> std::result::Result<(), StopReason> {
        let id2e = &self.tables.id2e;
        let mut last = id2e.last_key()?.and_then(|key| codec::id::first(&key)).unwrap_or(0);
        if self.options.new {
            // The last ID of a complete id2e is at least its number of entries, not counting the root's entry (ID 0).
            let root = u64::from(id2e.get(&0u64.to_ne_bytes())?.is_some());
            last = last.max(id2e.record().entries.saturating_sub(root));
        }
        let (mut cursor, mut checked) = (id2e.cursor()?, BTreeSet::new());
        for wanted in chosen(last, self.options.sample) {
            self.options.counters.check()?;
            cursor.seek(&wanted.to_ne_bytes())?;
            let Some((key, value)) = cursor.next()? else {
                self.findings.add(Kind::Entry, || Finding::of_entry(wanted, "it is not in id2e"));
                break;
            };
            let id = codec::id::read(key).ok_or_else(damaged_entry)?;
            let is_reserved = value.is_empty() && !self.options.new;
            if id > 0 && !is_reserved && checked.insert(id) {
                self.entry(id, value)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, id: u64, value: &[u8]) -> std::result::Result<(), StopReason> {
        let Some(entry) = StoredEntry::read_whole(value) else {
            self.findings.add(Kind::Entry, || Finding::of_entry(id, "its value cannot be read"));
            return Ok(());
        };
        let rows = self.rows(id, &entry)?;
        let own = self.tables.dn2i.get(&id.to_ne_bytes())?;
        let node = own.as_deref().and_then(dn2i::read).filter(|node| node.child.is_none());
        let (mut keys, checker) = (IndexKeys::default(), self.checker);
        let mut report = |kind, finding| self.findings.add(kind, || Finding { id: Some(id), ..finding });
        checker.entry(&entry, &rows, &mut keys, &mut report);
        if self.options.new {
            self.place(id, node.as_ref())?;
        } else if let Some(node) = node {
            // Not for new files: in a partial replica, an entry may lack its naming attribute.
            checker.name(&node, &entry, &rows, &mut report);
        }
        keys.0.into_iter().try_for_each(|(at, key)| self.key(at, key, id))
    }

    /// Checks that the node has its own record and, if it is a leaf, a record in its parent's list.
    fn place(&mut self, id: u64, own: Option<&Node<'_>>) -> std::result::Result<(), StopReason> {
        let Some(node) = own.filter(|node| node.id != id) else {
            self.findings.add(Kind::Node, || Finding::of_entry(id, "it has no record of its own in dn2i"));
            return Ok(());
        };
        let (table, mut listed) = (self.tables.dn2i, Vec::new());
        dn2i::child(&mut listed, node.normal, node.pretty, id, 1);
        let is_leaf = table.counted(&id.to_ne_bytes())?.is_some_and(|(_, records)| records == 1);
        if is_leaf && !table.contains(&node.id.to_ne_bytes(), &listed)? {
            let message = format!("not in the list of its parent {}", node.id);
            self.findings.add(Kind::Place, || Finding::of_entry(id, message));
        }
        Ok(())
    }

    /// Returns the rows of the entry in id2v.
    fn rows(&mut self, id: u64, entry: &StoredEntry<'_>) -> std::result::Result<MultivalRecords, StopReason> {
        let mut rows = MultivalRecords::new();
        for stored in entry.attributes.iter().filter(|stored| stored.apart) {
            let records = self.tables.id2v.map(|table| id2v::rows(&table, id, stored.number));
            let records = records.transpose()?.unwrap_or_default();
            if records.len() != stored.count as usize {
                self.findings.add(Kind::Values, || Finding::of_entry(id, values_apart(records.len(), stored)));
            }
            rows.push((stored.number, records));
        }
        rows.sort_by_key(|(number, _)| *number);
        Ok(rows)
    }

    /// Checks that the key's list or range has the ID, and that slapd accepts the list's length.
    fn key(&mut self, at: usize, key: Key, id: u64) -> std::result::Result<(), StopReason> {
        let Some(table) = self.indexes[at] else { return Ok(()) };
        let is_listed = table.contains(key.as_bytes(), &id.to_ne_bytes())?;
        let is_new_key = self.seen.insert((at, key));
        if is_listed && !is_new_key {
            return Ok(());
        }
        let row = table.counted(key.as_bytes())?;
        let is_list = row.as_ref().is_some_and(|(first, _)| codec::id::read(first) != Some(0));
        let exponent = self.configured.settings.list_exponent;
        if is_list && row.is_some_and(|(_, count)| idl::is_too_long(count, exponent)) {
            self.stale(at, Kind::TooLong, || Finding::new(format!("key {key:?}: {TOO_LONG}")));
        }
        if is_listed || (!is_list && is_in_range(&table, key, id)?) {
            return Ok(());
        }
        self.stale(at, Kind::Missing, || {
            Finding::of_entry(id, format!("key {key:?}: a search by this index does not find the entry"))
        });
        Ok(())
    }
}

fn is_in_range(table: &TableReader<'_>, key: Key, id: u64) -> lmdbfile::Result<bool> {
    let row = idl::read(&table.get_all(key.as_bytes())?);
    Ok(matches!(row, Some((idl::IndexRecord::Range(low, high), _)) if (low..=high).contains(&id)))
}

/// Returns at most `count` IDs from 1 to `last`: the newest IDs, and others at even distances.
fn chosen(last: u64, count: u64) -> BTreeSet<u64> {
    let newest = (count / NEWEST).min(last);
    let (first_new, spread) = (last - newest + 1, u128::from(count - newest));
    let even = (0..spread.min(u128::from(first_new - 1))).map(|at| 1 + at * u128::from(last - 1) / spread);
    even.filter_map(|id| u64::try_from(id).ok()).chain(first_new..=last).collect()
}
