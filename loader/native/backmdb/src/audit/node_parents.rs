//! Checks that the nodes and subtree sizes in dn2i match. It computes checksums in which matching records cancel out,
//! which takes no memory. Only if a checksum is not 0, all records are sorted by node to find the wrong ones.

use extsort::TupleSorter;
use ldif::Counters;
use lmdbfile::TableReader;
use xxhash_rust::xxh3::xxh3_128;

use super::findings::{Finding, Findings, Kind};
use super::ranges::StopReason;
use crate::{Result, verify};
use codec::dn2i;

/// Sums that are 0 if all nodes and counts match.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct NodeChecksums {
    names: u128,
    counts: u128,
}

impl NodeChecksums {
    pub fn add(self, other: Self) -> Self {
        Self { names: self.names.wrapping_add(other.names), counts: self.counts.wrapping_add(other.counts) }
    }

    /// Adds a node's own record.
    pub fn own(&mut self, id: u64, node: &dn2i::Node<'_>) {
        self.names = self.names.wrapping_add(name_hash(id, node.id, node));
    }

    /// Subtracts a node's record in the list of `parent`. `entries`: the size of the node's subtree in this record.
    pub fn listed(&mut self, parent: u64, node: &dn2i::Node<'_>, entries: u64) {
        self.names = self.names.wrapping_sub(name_hash(node.id, parent, node));
        self.counts = self.counts.wrapping_sub(count_hash(node.id, entries));
    }

    /// Adds the size of a node's subtree, summed up from its children.
    pub fn summed_size(&mut self, id: u64, entries: u64) {
        self.counts = self.counts.wrapping_add(count_hash(id, entries));
    }
}

/// Returns a hash of a node's ID, parent and name.
fn name_hash(id: u64, parent: u64, node: &dn2i::Node<'_>) -> u128 {
    let parts = [&id.to_le_bytes()[..], &parent.to_le_bytes(), node.normal, b"\0", node.pretty];
    xxh3_128(&parts.concat())
}

fn count_hash(id: u64, entries: u64) -> u128 {
    xxh3_128([id.to_le_bytes(), entries.to_le_bytes()].as_flattened())
}

/// A fact about a node: the node's ID, the kind of fact, and two values.
type NodeClaim = [u64; 4];

/// Kind of fact: a node's own record. Values: the parent, and a hash of the name.
const OWN: u64 = 0;
/// Kind of fact: a record in a parent's list. Values: the parent, and a hash of the name.
const LISTED: u64 = 1;
/// Kind of fact: the size of a node's subtree, summed up from its children.
const SUMMED_SIZE: u64 = 2;
/// Kind of fact: the size of a node's subtree, as its parent's list states it.
const LISTED_SIZE: u64 = 3;

/// Number of records after which the cancel flag is checked.
const PATIENCE: u64 = 4096;

/// Finds the nodes and counts that do not match.
pub fn check(
    dn2i: &TableReader<'_>,
    resources: &verify::Resources,
    counters: &Counters,
    findings: &mut Findings,
) -> Result<()> {
    let memory = resources.memory / 2;
    let mut sorter = TupleSorter::<NodeClaim>::new(memory, resources.jobs, &resources.scratch, counters.flag());
    if let Err(reason) = collect(dn2i, &mut sorter, counters) {
        return reason.report(Kind::Page, findings);
    }
    let mut of_node: Vec<NodeClaim> = Vec::new();
    for fact in sorter.finish()? {
        let fact = fact?;
        if of_node.first().is_some_and(|first| first[0] != fact[0]) {
            judge(&of_node, findings);
            of_node.clear();
        }
        of_node.push(fact);
    }
    judge(&of_node, findings);
    Ok(())
}

/// Collects all facts of dn2i.
#[allow(clippy::cast_possible_truncation, reason = "half of a hash is enough")]
fn collect(
    dn2i: &TableReader<'_>,
    sorter: &mut TupleSorter<NodeClaim>,
    counters: &Counters,
) -> std::result::Result<(), StopReason> {
    let (mut cursor, mut seen) = (dn2i.cursor()?, 0u64);
    // The current node, and the size of its subtree. The root comes first; no list states its size.
    let (mut current, mut size) = (0, 1u64);
    while let Some((key, record)) = cursor.next()? {
        seen += 1;
        if seen % PATIENCE == 0 {
            counters.check()?;
        }
        let Some(id) = codec::id::first(key) else { continue };
        if id != current {
            if current > 0 {
                sorter.push([current, SUMMED_SIZE, size, 0])?;
            }
            (current, size) = (id, 1);
        }
        let Some(node) = dn2i::read(record).filter(|_| record != dn2i::ROOT) else { continue };
        match node.child {
            None => sorter.push([id, OWN, node.id, name_hash(id, node.id, &node) as u64])?,
            Some(entries) => {
                size = size.saturating_add(entries);
                sorter.push([node.id, LISTED, id, name_hash(node.id, id, &node) as u64])?;
                sorter.push([node.id, LISTED_SIZE, entries, id])?;
            }
        }
    }
    if current > 0 {
        sorter.push([current, SUMMED_SIZE, size, 0])?;
    }
    Ok(())
}

/// Compares the facts of one node, which are sorted.
fn judge(facts: &[NodeClaim], findings: &mut Findings) {
    let of = |what: u64| facts.iter().filter(move |fact| fact[1] == what);
    let Some(id) = facts.first().map(|fact| fact[0]) else { return };
    let mut place = |message: String| {
        findings.add(Kind::Place, || Finding::of_entry(id, message));
    };
    match (of(OWN).next(), of(LISTED).count(), of(LISTED).next()) {
        (Some([_, _, parent, _]), 0, _) => place(format!("not in the list of its parent {parent}")),
        (None, _, Some([_, _, parent, _])) => {
            place(format!("in the list of {parent}, but without a record of its own"));
        }
        (Some([_, _, parent, name]), 1, Some([_, _, other, other_name])) => {
            if parent != other {
                place(format!("its parent is {parent}, but it is in the list of {other}"));
            } else if name != other_name {
                place(format!("it has another name in the list of its parent {parent}"));
            }
        }
        (_, lists, _) if lists > 1 => place(format!("in {lists} lists of children")),
        _ => {}
    }
    if let (Some([_, _, summed, _]), Some([_, _, listed, _])) = (of(SUMMED_SIZE).next(), of(LISTED_SIZE).next()) {
        if summed != listed {
            let message = format!("its parent counts {listed} entries in its subtree, which has {summed}");
            findings.add(Kind::Subtree, || Finding::of_entry(id, message));
        }
    }
}
