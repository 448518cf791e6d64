//! The third rung: id2e, dn2i and id2v read side by side, ID by ID.
//!
//! Every node must appear twice, as itself and in its parent's list, and every subtree must have the
//! entries that are told of it. Both are summed up with hashes in such a way that what fits together
//! vanishes ([`Sums`]), so that this needs no memory. A node's subtree is larger than each of its
//! children's; so when the sums vanish there can be no cycle, and all hangs below the root.

use ldif::Counters;
use lmdbfile::{Reader, TableReader};
use xxhash_rust::xxh3::xxh3_128;

use super::ahead::{Ahead, Span, Stop};
use super::findings::{Finding, Findings, Kind};
use super::judge::Judge;
use super::posted::Posted;
use crate::{Code, Error, Result, blob, node, sorting};

/// Sums that are 0 when all nodes and counts fit.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Sums {
    names: u128,
    counts: u128,
}

impl Sums {
    pub fn add(self, other: Self) -> Self {
        Self {
            names: self.names.wrapping_add(other.names),
            counts: self.counts.wrapping_add(other.counts),
        }
    }

    fn own(&mut self, id: u64, node: &node::Node<'_>) {
        self.names = self.names.wrapping_add(name_hash(id, node.id, node));
    }

    fn listed(&mut self, parent: u64, node: &node::Node<'_>) {
        self.names = self.names.wrapping_sub(name_hash(node.id, parent, node));
    }

    fn held(&mut self, id: u64, entries: u64) {
        self.counts = self.counts.wrapping_add(count_hash(id, entries));
    }

    fn told(&mut self, id: u64, entries: u64) {
        self.counts = self.counts.wrapping_sub(count_hash(id, entries));
    }
}

/// What a node is called and where it hangs.
pub fn name_hash(id: u64, parent: u64, node: &node::Node<'_>) -> u128 {
    let parts = [&id.to_le_bytes()[..], &parent.to_le_bytes(), node.normal, b"\0", node.pretty];
    xxh3_128(&parts.concat())
}

fn count_hash(id: u64, entries: u64) -> u128 {
    xxh3_128([id.to_le_bytes(), entries.to_le_bytes()].as_flattened())
}

/// The tables of one reader.
#[derive(Debug, Clone, Copy)]
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

/// What a part of the IDs has.
#[derive(Debug)]
pub struct Part {
    pub findings: Findings,
    pub sums: Sums,
    pub entries: u64,
    /// Reading ended before the part did.
    pub broken: bool,
}

impl Part {
    pub fn new(limit: usize) -> Self {
        let (findings, sums) = (Findings::new(limit), Sums::default());
        Self { findings, sums, entries: 0, broken: false }
    }
}

/// One worker's way through parts.
pub struct Walk<'a> {
    pub tables: Tables<'a>,
    /// ad2i has so many descriptions.
    pub numbers: u32,
    pub judge: Option<(&'a Judge<'a>, Posted)>,
    pub part: Part,
    pub counters: &'a Counters,
}

/// The rows of id2v that one entry has: an attribute's number, and its rows in their order.
pub type Rows = Vec<(u16, Vec<Vec<u8>>)>;

pub fn of_number(rows: &Rows, number: u32) -> &[Vec<u8>] {
    let found = rows.binary_search_by_key(&number, |(number, _)| (*number).into());
    found.map_or(&[], |at| &rows[at].1)
}

/// After so many IDs the sorter may put its buffers in order, and a wish to stop is heard.
const PATIENCE: u64 = 1024;

impl Walk<'_> {
    /// Goes through the IDs of `span`. What is wrong is in `part` afterwards.
    pub fn span(&mut self, span: Span) -> Result<()> {
        match self.try_span(span) {
            Ok(()) => Ok(()),
            Err(Stop::Failed(error)) => Err(error),
            Err(Stop::Damage(finding)) => {
                self.part.broken = true;
                self.part.findings.add(Kind::Page, || finding);
                Ok(())
            }
        }
    }

    fn try_span(&mut self, span: Span) -> std::result::Result<(), Stop> {
        let mut entries = Ahead::new(self.tables.id2e, "id2e", 8, span)?;
        let mut nodes = Ahead::new(self.tables.dn2i, "dn2i", 8, span)?;
        let values = self.tables.id2v.map(|table| Ahead::new(table, "id2v", 10, span));
        let mut values = values.transpose()?;
        let (mut rows, mut seen) = (Rows::new(), 0);
        loop {
            let ids = [entries.id(), nodes.id(), values.as_ref().and_then(Ahead::id)];
            let Some(id) = ids.into_iter().flatten().min() else { return Ok(()) };
            seen += 1;
            if seen % PATIENCE == 0 {
                self.settle()?;
            }
            let own = if nodes.id() == Some(id) { self.node(id, &mut nodes)? } else { None };
            self.rows(id, values.as_mut(), &mut rows)?;
            let has_entry = entries.id() == Some(id);
            self.presence(id, has_entry, ids[1] == Some(id), &rows);
            if has_entry {
                self.entry(id, &entries.value, &rows, own.as_deref());
                entries.step()?;
            }
        }
    }

    /// After the last span: all index keys are handed over.
    pub fn end(self) -> Result<()> {
        match self.judge {
            Some((_, posted)) if posted.overflow => {
                let message = "an entry ID above 4,294,967,295: the indexes of such a database cannot be checked";
                Err(Error::new(Code::TooMany, message))
            }
            Some((_, mut posted)) => posted.writer.settle().map_err(sorting),
            None => Ok(()),
        }
    }

    fn settle(&mut self) -> std::result::Result<(), Stop> {
        self.counters.check()?;
        self.counters.advance(PATIENCE);
        if let Some((_, posted)) = &mut self.judge {
            posted.writer.settle()?;
        }
        Ok(())
    }

    fn add(&mut self, kind: Kind, id: u64, message: impl Into<String>) {
        self.part.findings.add(kind, || Finding::of_entry(id, message));
    }

    /// The records of a node: its own, which is returned, and its children's.
    fn node(
        &mut self,
        id: u64,
        nodes: &mut Ahead<'_>,
    ) -> std::result::Result<Option<Vec<u8>>, Stop> {
        let (mut own, mut below, mut last) = (None, Some(1u64), Vec::new());
        let mut first = true;
        while nodes.id() == Some(id) {
            match (first, node::read(&nodes.value)) {
                (true, _) if id == 0 && nodes.value == node::ROOT => {}
                (_, None) => self.add(Kind::Node, id, "a record of it in dn2i cannot be read"),
                (true, Some(node)) if node.child.is_none() && id != 0 => {
                    self.part.sums.own(id, &node);
                    own = Some(nodes.value.clone());
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
            Some(entries) if id != 0 => self.part.sums.held(id, entries),
            Some(_) => {}
            None => self.add(Kind::Subtree, id, "the counts of its children make no sense"),
        }
        Ok(own)
    }

    /// A record in a parent's list: how many entries it says there are below.
    fn child(&mut self, parent: u64, node: &node::Node<'_>, last: &[u8]) -> Option<u64> {
        let Some(entries) = node.child else {
            self.add(Kind::Node, parent, "it has two records of its own in dn2i");
            return None;
        };
        if node.normal == last {
            let name = String::from_utf8_lossy(node.normal).into_owned();
            self.add(Kind::Sibling, parent, format!("two of its children are called {name}"));
        }
        self.part.sums.listed(parent, node);
        self.part.sums.told(node.id, entries);
        Some(entries)
    }

    /// Collects what id2v has of an entry; the rows themselves only for who looks at values.
    fn rows(
        &mut self,
        id: u64,
        values: Option<&mut Ahead<'_>>,
        rows: &mut Rows,
    ) -> std::result::Result<(), Stop> {
        rows.clear();
        let Some(values) = values else { return Ok(()) };
        let keep = self.judge.is_some();
        while values.id() == Some(id) {
            let number = u16::from_ne_bytes([values.key[8], values.key[9]]);
            if rows.last().is_none_or(|(last, _)| *last != number) {
                rows.push((number, Vec::new()));
            }
            let row = if keep { values.value.clone() } else { Vec::new() };
            if let Some((_, kept)) = rows.last_mut() {
                kept.push(row);
            }
            values.step()?;
        }
        Ok(())
    }

    fn presence(&mut self, id: u64, entry: bool, node: bool, rows: &Rows) {
        match (entry, node) {
            (true, false) => self.add(Kind::NoNode, id, "an entry that is not in dn2i"),
            (false, true) if id != 0 => self.add(Kind::NoEntry, id, "a node without an entry"),
            (false, _) if !rows.is_empty() => {
                self.add(Kind::Values, id, "id2v has values of an entry that is not there");
            }
            _ => {}
        }
    }

    fn entry(&mut self, id: u64, value: &[u8], rows: &Rows, own: Option<&[u8]>) {
        self.part.entries += 1;
        if value.is_empty() {
            let message = "a place kept for an entry that never came";
            return self.add(Kind::Hole, id, message);
        }
        match blob::read_whole(value) {
            Ok(parts) => {
                self.attributes(id, &parts, rows);
                self.judged(id, &parts, rows, own);
            }
            Err(_) => self.add(Kind::Entry, id, "its value in id2e cannot be read"),
        }
    }

    /// Attributes have known numbers and stand once; those that live in id2v have all their values there.
    fn attributes(&mut self, id: u64, parts: &blob::Parts<'_>, rows: &Rows) {
        let mut apart = 0;
        self.numbers(id, parts);
        for one in &parts.attributes {
            let number = one.number;
            if one.apart {
                apart += 1;
                let found = of_number(rows, number).len();
                if found != one.count as usize {
                    let count = one.count;
                    let what =
                        format!("{found} values in id2v of attribute number {number}, not {count}");
                    self.add(Kind::Values, id, what);
                }
            }
        }
        if apart < rows.len() {
            self.add(Kind::Values, id, "id2v has values of an attribute that is not there");
        }
    }

    fn numbers(&mut self, id: u64, parts: &blob::Parts<'_>) {
        let mut numbers: Vec<u32> = parts.attributes.iter().map(|one| one.number).collect();
        numbers.sort_unstable();
        for pair in numbers.windows(2).filter(|pair| pair[0] == pair[1]) {
            let number = pair[0];
            self.add(Kind::Entry, id, format!("attribute number {number} stands twice"));
        }
        let last = self.numbers;
        for number in numbers.into_iter().filter(|one| *one == 0 || *one > last) {
            self.add(Kind::Entry, id, format!("no attribute has the number {number}"));
        }
    }

    fn judged(&mut self, id: u64, parts: &blob::Parts<'_>, rows: &Rows, own: Option<&[u8]>) {
        // slapd makes no index keys for the entry of the empty DN.
        let Some((judge, posted)) = self.judge.as_mut().filter(|_| id != 0) else { return };
        let findings = &mut self.part.findings;
        let mut tell = |kind: Kind, finding: Finding| {
            findings.add(kind, || Finding { id: Some(id), ..finding });
        };
        judge.entry(parts, rows, &mut posted.at(id), &mut tell);
        if let Some(node) = own.and_then(node::read) {
            judge.name(&node, parts, rows, &mut tell);
        }
    }
}
