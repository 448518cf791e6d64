//! Third level of the audit: reads id2e, dn2i and id2v side by side, ID by ID, and checks that each node has an entry,
//! that the entry can be decoded, that ad2i has its attributes, and that id2v has its values.
//!
//! Every node must have a record of its own and a record in its parent's list, and every subtree must contain the
//! number of entries that its record states. [`NodeChecksums`] sums hashes such that matching records cancel out, so
//! the check takes no memory. A node's subtree is larger than the subtree of each child. So if the sums are 0, there is
//! no cycle, and every node is below the root.

use std::collections::BTreeMap;
use std::sync::Mutex;

use codec::id2e::{Stored, StoredEntry};
use codec::{dn2i, id2v};
use extsort::Postings;
use ldif::Counters;
use lmdbfile::{Reader, TableReader};

use super::AuditOptions;
use super::as_loaded::AsLoaded;
use super::entry_checker::EntryChecker;
use super::findings::{Finding, Findings, Kind};
use super::indexes::ExpectedPostings;
use super::last_values::LastValues;
use super::node_parents::{self, NodeChecksums};
use super::ranges::{IdRange, StopReason, TableRange, id_ranges, side_by_side};
use crate::{Code, Error, Result, lock};

/// The tables of one reader.
#[derive(Clone, Copy)]
pub struct Tables<'r> {
    pub id2e: TableReader<'r>,
    pub dn2i: TableReader<'r>,
    pub id2v: Option<TableReader<'r>>,
}

impl<'r> Tables<'r> {
    pub fn of(reader: &'r Reader) -> Option<Self> {
        let table = |name: &str| reader.table(name.as_bytes());
        Some(Self { id2e: table("id2e")?, dn2i: table("dn2i")?, id2v: table("id2v") })
    }
}

/// The result for a range of IDs.
pub struct IdRangeResult {
    pub findings: Findings,
    pub sums: NodeChecksums,
    pub entries: u64,
    /// Reading ended before the end of the range.
    pub broken: bool,
}

impl IdRangeResult {
    pub fn new(limit: usize) -> Self {
        let (findings, sums) = (Findings::new(limit), NodeChecksums::default());
        Self { findings, sums, entries: 0, broken: false }
    }
}

/// The state of one worker, which checks ranges of IDs.
pub struct Walk<'r, 'a> {
    pub tables: Tables<'r>,
    /// The descriptions of ad2i, by number from 1.
    pub texts: &'a [String],
    /// An entry may have an attribute in several pieces, as `slapadd -q` leaves it.
    pub scattered: bool,
    pub checker: Option<(&'a EntryChecker<'a>, ExpectedPostings)>,
    pub last: LastValues,
    /// Checks that slapadd would store each entry unchanged; only in addition to `checker`.
    pub as_loaded: Option<AsLoaded<'a>>,
    pub part: IdRangeResult,
    /// Number of IDs since the counters were last updated. It runs on from range to range, as many ranges are short.
    pub seen: u64,
    pub counters: &'a Counters,
}

/// The rows of one entry in id2v: the ascending attribute numbers, each with its rows in order.
pub type MultivalRecords = Vec<(u32, Vec<Vec<u8>>)>;

pub fn of_number(rows: &MultivalRecords, number: u32) -> &[Vec<u8>] {
    let index = rows.binary_search_by_key(&number, |(number, _)| *number);
    index.map_or(&[], |index| &rows[index].1)
}

/// Returns the message for an attribute with a wrong number of values in id2v.
pub fn values_apart(count: usize, stored: &Stored<'_>) -> String {
    format!("{count} values in id2v of attribute number {}, not {}", stored.number, stored.count)
}

/// Number of IDs after which the sorter may sort its buffers and the cancel flag is checked.
const PATIENCE: u64 = 1024;

impl<'r, 'a> Walk<'r, 'a> {
    /// Creates the state of a worker that checks no index keys. `limit`: maximum number of reported findings of each
    /// kind.
    pub fn new(tables: &Tables<'r>, texts: &'a [String], limit: usize, counters: &'a Counters) -> Self {
        let (last, part) = (LastValues::default(), IdRangeResult::new(limit));
        let tables = *tables;
        Self { tables, texts, scattered: false, checker: None, last, as_loaded: None, part, seen: 0, counters }
    }

    /// Checks the IDs of `span`, and adds the findings to `part`.
    pub fn span(&mut self, span: IdRange) -> Result<()> {
        self.try_span(span).or_else(|reason| {
            self.part.broken = true;
            reason.report(Kind::Page, &mut self.part.findings)
        })
    }

    fn try_span(&mut self, span: IdRange) -> std::result::Result<(), StopReason> {
        let mut entries = TableRange::new(self.tables.id2e, "id2e", 8, span)?;
        let mut nodes = TableRange::new(self.tables.dn2i, "dn2i", 8, span)?;
        let values = self.tables.id2v.map(|table| TableRange::new(table, "id2v", 10, span));
        let mut values = values.transpose()?;
        let mut rows = MultivalRecords::new();
        loop {
            let ids = [entries.id(), nodes.id(), values.as_ref().and_then(TableRange::id)];
            let Some(id) = ids.into_iter().flatten().min() else { return Ok(()) };
            self.seen += 1;
            if self.seen == PATIENCE {
                self.settle()?;
            }
            let own = if nodes.id() == Some(id) { self.node(id, &mut nodes)? } else { None };
            Self::rows(id, values.as_mut(), &mut rows)?;
            let has_entry = entries.id() == Some(id);
            self.presence(id, has_entry, ids[1] == Some(id), &rows);
            if has_entry {
                self.entry(id, entries.record()?.1, &rows, own.as_deref());
                entries.step()?;
            }
        }
    }

    /// Hands over all index keys after the last range.
    pub fn end(self) -> Result<()> {
        self.counters.advance(self.seen);
        self.checker.map_or(Ok(()), |(_, posted)| posted.end())
    }

    /// Lets the sorter sort its buffers, and updates the counters.
    fn settle(&mut self) -> std::result::Result<(), StopReason> {
        self.counters.check()?;
        self.counters.advance(std::mem::take(&mut self.seen));
        if let Some((_, posted)) = &mut self.checker {
            posted.writer.finish_index()?;
        }
        Ok(())
    }

    fn add(&mut self, kind: Kind, id: u64, message: impl Into<String>) {
        self.part.findings.add(kind, || Finding::of_entry(id, message));
    }

    /// Reads the records of a node: its own record, which is returned, and the records of its children.
    fn node(&mut self, id: u64, nodes: &mut TableRange<'_>) -> std::result::Result<Option<Vec<u8>>, StopReason> {
        let (mut own, mut below, mut last) = (None, Some(1u64), Vec::new());
        let mut first = true;
        while nodes.id() == Some(id) {
            let (_, record) = nodes.record()?;
            match (first, dn2i::read(record)) {
                (true, _) if id == 0 && record == dn2i::ROOT => {}
                (_, None) => self.add(Kind::Node, id, "a record of it in dn2i cannot be read"),
                (true, Some(node)) if node.child.is_none() && id != 0 => {
                    self.part.sums.own(id, &node);
                    own = Some(record.to_vec());
                }
                (_, Some(node)) => {
                    let counted = self.child(id, &node, &last);
                    below = below.zip(counted).and_then(|(sum, more)| sum.checked_add(more));
                    last.clear();
                    last.extend_from_slice(node.normal);
                }
            }
            first = false;
            nodes.step()?;
        }
        if own.is_none() && id != 0 {
            self.add(Kind::Node, id, "it has no record of its own in dn2i");
        }
        match below {
            Some(entries) if id != 0 => self.part.sums.summed_size(id, entries),
            Some(_) => {}
            None => self.add(Kind::Subtree, id, "the counts of its children are invalid"),
        }
        Ok(own)
    }

    /// Checks a record in a parent's list; returns the size of the child's subtree.
    fn child(&mut self, parent: u64, node: &dn2i::Node<'_>, last: &[u8]) -> Option<u64> {
        let Some(entries) = node.child else {
            self.add(Kind::Node, parent, "it has two records of its own in dn2i");
            return None;
        };
        if node.normal == last {
            let name = String::from_utf8_lossy(node.normal).into_owned();
            self.add(Kind::Sibling, parent, format!("two of its children are called {name}"));
        }
        self.part.sums.listed(parent, node, entries);
        Some(entries)
    }

    /// Collects the rows of an entry in id2v.
    fn rows(
        id: u64,
        values: Option<&mut TableRange<'_>>,
        rows: &mut MultivalRecords,
    ) -> std::result::Result<(), StopReason> {
        rows.clear();
        let Some(values) = values else { return Ok(()) };
        while values.id() == Some(id) {
            let (key, record) = values.record()?;
            let Some((_, number)) = codec::id2v::read_key(key) else { break };
            let number = number.into();
            if rows.last().is_none_or(|(last, _)| *last != number) {
                rows.push((number, Vec::new()));
            }
            if let Some((_, records)) = rows.last_mut() {
                records.push(record.to_vec());
            }
            values.step()?;
        }
        Ok(())
    }

    fn presence(&mut self, id: u64, entry: bool, node: bool, rows: &MultivalRecords) {
        match (entry, node) {
            (true, false) => self.add(Kind::NoNode, id, "an entry that is not in dn2i"),
            (false, true) if id != 0 => self.add(Kind::NoEntry, id, "a node without an entry"),
            (false, _) if !rows.is_empty() => {
                self.add(Kind::Values, id, "id2v has values of a missing entry");
            }
            _ => {}
        }
    }

    fn entry(&mut self, id: u64, value: &[u8], rows: &MultivalRecords, own: Option<&[u8]>) {
        self.part.entries += 1;
        if value.is_empty() {
            let message = "an empty record, reserved for an entry that never came";
            return self.add(Kind::Hole, id, message);
        }
        match StoredEntry::read_whole(value) {
            Some(entry) => {
                self.attributes(id, &entry, rows);
                self.check_entry(id, &entry, rows, own);
                self.check_as_loaded(id, &entry, value.len(), own);
            }
            None => self.add(Kind::Entry, id, "its value in id2e cannot be read"),
        }
    }

    /// Checks that attribute numbers are known and unique, and that id2v has all values of the attributes stored there.
    fn attributes(&mut self, id: u64, entry: &StoredEntry<'_>, rows: &MultivalRecords) {
        let mut apart = 0;
        self.numbers(id, entry);
        for stored in entry.attributes.iter().filter(|stored| stored.apart) {
            apart += 1;
            let rows = of_number(rows, stored.number);
            if rows.len() != stored.count as usize {
                self.add(Kind::Values, id, values_apart(rows.len(), stored));
            }
            // `checker` reports rows that it cannot read.
            let is_readable = |row: &Vec<u8>| id2v::read_row(row, stored.has_normals).is_some();
            if self.checker.is_none() && !rows.iter().all(is_readable) {
                let message = format!("a row of id2v of attribute number {} cannot be read", stored.number);
                self.add(Kind::Values, id, message);
            }
        }
        if apart < rows.len() {
            self.add(Kind::Values, id, "id2v has values of an attribute that the entry lacks");
        }
    }

    /// Checks that attribute numbers are known and unique.
    fn numbers(&mut self, id: u64, entry: &StoredEntry<'_>) {
        let numbers = entry.attributes.iter().map(|stored| stored.number);
        if numbers.clone().eq(self.last.numbers.iter().copied()) {
            return;
        }
        self.last.numbers.clear();
        let mut sorted: Vec<u32> = numbers.clone().collect();
        sorted.sort_unstable();
        let twice = sorted.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
        let mut is_valid = true;
        for number in twice {
            is_valid = false;
            if !self.scattered {
                let text = self.text(number).unwrap_or_default().to_owned();
                self.part.findings.add(Kind::Scattered, || {
                    let message = "the attribute stands in several pieces; slapd changes only the first";
                    Finding::of_entry(id, message).of_attribute(&text)
                });
            }
        }
        for number in &sorted {
            if self.text(*number).is_none() {
                is_valid = false;
                self.add(Kind::Entry, id, format!("no attribute has the number {number}"));
            }
        }
        if is_valid {
            self.last.numbers.extend(numbers);
        }
    }

    fn text(&self, number: u32) -> Option<&str> {
        let at = (number as usize).checked_sub(1)?;
        self.texts.get(at).map(String::as_str)
    }

    fn check_as_loaded(&mut self, id: u64, entry: &StoredEntry<'_>, size: usize, own: Option<&[u8]>) {
        let Some(as_loaded) = &mut self.as_loaded else { return };
        let node = own.and_then(dn2i::read);
        let result = as_loaded.entry(entry, size).and_then(|()| node.map_or(Ok(()), |node| as_loaded.name(&node)));
        if let Err(refusal) = result {
            self.add(Kind::Schema, id, refusal.0);
        }
    }

    fn check_entry(&mut self, id: u64, entry: &StoredEntry<'_>, rows: &MultivalRecords, own: Option<&[u8]>) {
        // slapd generates no index keys for the entry of the empty DN.
        let Some((checker, posted)) = self.checker.as_mut().filter(|_| id != 0) else { return };
        let findings = &mut self.part.findings;
        let mut report = |kind: Kind, finding: Finding| {
            findings.add(kind, || Finding { id: Some(id), ..finding });
        };
        checker.next_entry(&mut self.last, entry, rows, &mut posted.at(id), &mut report);
        if let Some(node) = own.and_then(dn2i::read) {
            checker.name(&node, entry, rows, &mut report);
        }
    }
}

/// Checks all IDs in parallel. `new_walk` creates the state of a worker; `keep` gets the number and the result of each
/// range.
pub fn each_range<'a>(
    reader: &Reader,
    (jobs, counters): (usize, &Counters),
    new_walk: impl for<'r> Fn(Tables<'r>) -> Walk<'r, 'a> + Sync,
    keep: impl Fn(usize, IdRangeResult) -> Result<()> + Sync,
) -> Result<()> {
    let Some(tables) = Tables::of(reader) else { return Ok(()) };
    counters.begin("entries", tables.id2e.record().entries);
    let ranges = id_ranges(&tables.id2e, jobs);
    side_by_side(reader, jobs, ranges.len(), |reader, turns| {
        let Some(tables) = Tables::of(reader) else { return Ok(()) };
        let mut walk = new_walk(tables);
        for at in turns.iter() {
            walk.span(ranges[at])?;
            let empty = IdRangeResult::new(walk.part.findings.limit);
            keep(at, std::mem::replace(&mut walk.part, empty))?;
        }
        walk.end()
    })
}

/// Checks all entries. `texts`: the descriptions in ad2i.
pub fn check(
    options: &AuditOptions<'_>,
    reader: &Reader,
    texts: &[String],
    checker: Option<(&EntryChecker<'_>, &Postings)>,
    findings: &mut Findings,
) -> Result<()> {
    let Some(tables) = Tables::of(reader) else { return Ok(()) };
    let counters = options.counters;
    let parts = Mutex::new(BTreeMap::new());
    each_range(
        reader,
        (options.means.jobs, counters),
        |tables| Walk {
            scattered: options.new,
            checker: checker.map(|(checker, postings)| (checker, ExpectedPostings::new(postings.writer()))),
            ..Walk::new(&tables, texts, options.limit, counters)
        },
        |at, part| {
            lock(&parts).insert(at, part);
            Ok(())
        },
    )?;
    let (mut sums, mut broken, mut entries) = (NodeChecksums::default(), false, 0);
    for part in std::mem::take(&mut *lock(&parts)).into_values() {
        sums = sums.add(part.sums);
        broken |= part.broken;
        entries += part.entries;
        findings.absorb(part.findings);
    }
    let expected = tables.id2e.record().entries;
    if !broken && entries != expected {
        return Err(Error::new(Code::Damaged, format!("looked at {entries} entries of {expected}")));
    }
    if broken || sums == NodeChecksums::default() {
        return Ok(());
    }
    counters.begin("places", 0);
    node_parents::check(&tables.dn2i, options.means, counters, findings)?;
    if ![Kind::Place, Kind::Subtree].iter().any(|kind| findings.problems.contains_key(kind)) {
        findings.add(Kind::Place, || Finding::new("nodes do not match the lists of their parents"));
    }
    Ok(())
}
