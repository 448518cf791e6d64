//! Checks that all nodes and counts of a tree match. Checksums in which matching records cancel out need no memory;
//! only if they differ, all records of dn2i are sorted by node to find the wrong ones.

use extsort::TupleSorter;
use ldif::Counters;
use lmdbfile::TableReader;
use xxhash_rust::xxh3::xxh3_128;

use super::findings::{Finding, Findings, Kind};
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

    pub fn own(&mut self, id: u64, node: &dn2i::Node<'_>) {
        self.names = self.names.wrapping_add(name_hash(id, node.id, node));
    }

    pub fn listed(&mut self, parent: u64, node: &dn2i::Node<'_>) {
        self.names = self.names.wrapping_sub(name_hash(node.id, parent, node));
    }

    pub fn held(&mut self, id: u64, entries: u64) {
        self.counts = self.counts.wrapping_add(count_hash(id, entries));
    }

    pub fn add_count(&mut self, id: u64, entries: u64) {
        self.counts = self.counts.wrapping_sub(count_hash(id, entries));
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

/// A fact about a node from one record: the node's ID, the kind of fact, and two values.
type NodeClaim = [u64; 4];

/// From its own record: the parent, and a hash of the name.
const OWN: u64 = 0;
/// From a parent's list: the parent, and a hash of the name.
const LISTED: u64 = 1;
/// Size of its subtree, summed up from its children.
const SUMMED_SIZE: u64 = 2;
/// Size of its subtree according to the record in its parent's list.
const LISTED_SIZE: u64 = 3;

const PATIENCE: u64 = 4096;

pub fn check(
    dn2i: &TableReader<'_>,
    means: &verify::Resources,
    counters: &Counters,
    findings: &mut Findings,
) -> Result<()> {
    let mut sorter = TupleSorter::<NodeClaim>::new(means.memory / 2, means.jobs, &means.scratch, counters.flag());
    if let Err(error) = collect(dn2i, &mut sorter, counters)? {
        findings.add(Kind::Page, || (&error).into());
        return Ok(());
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

/// Collects all facts of dn2i. The inner error is the file's fault.
fn collect(
    dn2i: &TableReader<'_>,
    sorter: &mut TupleSorter<NodeClaim>,
    counters: &Counters,
) -> Result<lmdbfile::Result<()>> {
    let mut cursor = match dn2i.cursor() {
        Ok(cursor) => cursor,
        Err(error) => return Ok(Err(error)),
    };
    let (mut open, mut seen) = (None::<[u64; 2]>, 0u64);
    loop {
        let (key, record) = match cursor.next() {
            Ok(Some(found)) => found,
            Ok(None) => break,
            Err(error) => return Ok(Err(error)),
        };
        seen += 1;
        if seen % PATIENCE == 0 {
            counters.check()?;
        }
        let Some(id) = codec::id::first(key) else { continue };
        if open.is_none_or(|[last, _]| last != id) {
            held(open, sorter)?;
            open = Some([id, 1]);
        }
        let Some(node) = dn2i::read(record).filter(|_| record != dn2i::ROOT) else { continue };
        match node.child {
            None => sorter.push([id, OWN, node.id, hash(id, node.id, &node)]),
            Some(entries) => {
                open = open.map(|[id, sum]| [id, sum.saturating_add(entries)]);
                let listed = sorter.push([node.id, LISTED, id, hash(node.id, id, &node)]);
                listed.and_then(|()| sorter.push([node.id, LISTED_SIZE, entries, id]))
            }
        }?;
    }
    held(open, sorter).map(Ok)
}

#[allow(clippy::cast_possible_truncation, reason = "half a hash is one")]
fn hash(id: u64, parent: u64, node: &dn2i::Node<'_>) -> u64 {
    name_hash(id, parent, node) as u64
}

fn held(open: Option<[u64; 2]>, sorter: &mut TupleSorter<NodeClaim>) -> Result<()> {
    match open {
        Some([id, entries]) if id > 0 => sorter.push([id, SUMMED_SIZE, entries, 0]),
        _ => Ok(()),
    }
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
    if let (Some([_, _, held, _]), Some([_, _, listed_size, _])) = (of(SUMMED_SIZE).next(), of(LISTED_SIZE).next()) {
        if held != listed_size {
            let message = format!("its parent counts {listed_size} entries in its subtree, which has {held}");
            findings.add(Kind::Subtree, || Finding::of_entry(id, message));
        }
    }
}
