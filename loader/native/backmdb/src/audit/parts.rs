//! The entries of a file in parts, side by side.

use std::collections::BTreeMap;
use std::sync::Mutex;

use extsort::Postings;
use lmdbfile::{Reader, TableReader};

use super::AuditOptions;
use super::ahead::IdRange;
use super::entry_checker::EntryChecker;
use super::expected_postings::ExpectedPostings;
use super::findings::{Findings, Kind};
use super::last_values::LastValues;
use super::node_parents;
use super::readers::side_by_side;
use super::sums::NodeChecksums;
use super::walk::{IdRangeResult, Tables, Walk};
use crate::{Code, Error, Result, lock};

/// Parts of the entries for each worker, or up to twice as many: so many keep all of them at work to the end. Were there
/// many more, a worker would often read ahead of itself what another one has to read.
const SPANS: usize = 64;

type EntryCheck<'a> = Option<(&'a EntryChecker<'a>, &'a Postings)>;

/// Looks at all entries. `texts`: the descriptions of ad2i.
pub fn check(
    look: &AuditOptions<'_>,
    reader: &Reader,
    texts: &[String],
    judging: EntryCheck<'_>,
    findings: &mut Findings,
) -> Result<()> {
    let Some(tables) = Tables::of(reader) else { return Ok(()) };
    look.counters.begin("entries", tables.id2e.record().entries);
    let spans = id_ranges(&tables.id2e, look.means.jobs);
    let done = Mutex::new(BTreeMap::new());
    side_by_side(reader, look.means.jobs, spans.len(), |reader, turns| {
        let Some(tables) = Tables::of(reader) else { return Ok(()) };
        let judge =
            judging.map(|(judge, postings)| (judge, ExpectedPostings::new(postings.writer())));
        let (part, counters) = (IdRangeResult::new(look.limit), look.counters);
        let mut walk = Walk {
            tables,
            texts,
            scattered: look.new,
            judge,
            last: LastValues::default(),
            as_loaded: None,
            part,
            seen: 0,
            counters,
        };
        for at in turns.iter() {
            walk.span(spans[at])?;
            let part = std::mem::replace(&mut walk.part, IdRangeResult::new(look.limit));
            lock(&done).insert(at, part);
        }
        walk.end()
    })?;
    let parts = std::mem::take(&mut *lock(&done));
    settle(look, &tables, parts, findings)
}

/// Cut at keys of id2e's upper branches, for so many workers.
pub fn id_ranges(id2e: &TableReader<'_>, jobs: usize) -> Vec<IdRange> {
    let wanted = SPANS.saturating_mul(jobs.max(1));
    // Whoever walks will meet what is damaged, and tell.
    let cuts = id2e.cuts(wanted).unwrap_or_default();
    let some = cuts.iter().step_by((cuts.len() / wanted).max(1));
    let ids = some.filter_map(|key| codec::id::first(key));
    let mut ids: Vec<u64> = ids.filter(|id| *id > 0).collect();
    ids.sort_unstable();
    ids.dedup();
    let ends = ids.iter().map(|id| Some(*id)).chain([None]);
    let starts = std::iter::once(0).chain(ids.iter().copied());
    starts.zip(ends).map(|(from, to)| IdRange { from, to }).collect()
}

/// What the parts have found, in the order of IDs; when nodes and counts do not fit, which.
fn settle(
    look: &AuditOptions<'_>,
    tables: &Tables<'_>,
    parts: BTreeMap<usize, IdRangeResult>,
    findings: &mut Findings,
) -> Result<()> {
    let (mut sums, mut broken, mut entries) = (NodeChecksums::default(), false, 0);
    for part in parts.into_values() {
        sums = sums.add(part.sums);
        broken |= part.broken;
        entries += part.entries;
        findings.absorb(part.findings);
    }
    let expected = tables.id2e.record().entries;
    if !broken && entries != expected {
        return Err(Error::new(
            Code::Damaged,
            format!("looked at {entries} entries of {expected}"),
        ));
    }
    if broken || sums == NodeChecksums::default() {
        return Ok(());
    }
    look.counters.begin("places", 0);
    let told = |findings: &Findings| {
        [Kind::Place, Kind::Subtree].iter().any(|kind| findings.problems.contains_key(kind))
    };
    node_parents::check(&tables.dn2i, look.means, look.counters, findings)?;
    if !told(findings) {
        findings.add(Kind::Place, || {
            super::Finding::new("nodes and the lists of their parents do not fit together")
        });
    }
    Ok(())
}
