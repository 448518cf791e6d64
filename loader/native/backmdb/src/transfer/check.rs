//! Checks every entry against the new configuration, and generates its index keys.

use std::sync::Mutex;

use extsort::{Postings, Sorted};
use ldif::Counters;
use lmdbfile::Reader;
use schema::Schema;

use crate::audit::as_loaded::AsLoaded;
use crate::audit::findings::Findings;
use crate::audit::indexes::{ConfiguredIndexes, ExpectedPostings};
use crate::audit::last_values::LastValues;
use crate::audit::node_parents::NodeChecksums;
use crate::audit::ranges::{id_ranges, side_by_side};
use crate::audit::walk::{IdRangeResult, Tables, Walk};
use crate::audit::{EntryChecker, structure};
use crate::descriptions::{AttributeDescriptions, InvalidValues};
use crate::verify::Resources;
use crate::{Code, Error, Result, lock};

/// Findings that are kept: one is enough to fail.
const TOLD: usize = 1;

pub struct Check<'a> {
    schema: &'a Schema,
    asked: &'a ConfiguredIndexes,
    means: &'a Resources,
    counters: &'a Counters,
    /// Normalised.
    suffixes: Vec<Vec<u8>>,
}

impl<'a> Check<'a> {
    pub fn new(
        schema: &'a Schema,
        asked: &'a ConfiguredIndexes,
        means: &'a Resources,
        counters: &'a Counters,
    ) -> Result<Self> {
        let settings = &asked.settings;
        if settings.translucent {
            return Err(otherwise("the overlay translucent"));
        }
        if !settings.foreign.is_empty() {
            return Err(otherwise("other databases below this one"));
        }
        let normal = |suffix: &String| match schema.dn(suffix.as_bytes()) {
            Ok(dn) if !dn.rdns.is_empty() => Ok(dn.normal()),
            _ => Err(otherwise("the suffix \"\"")),
        };
        let suffixes = settings.suffixes.iter().map(normal).collect::<Result<_>>()?;
        Ok(Self { schema, asked, means, counters, suffixes })
    }

    /// Returns all index keys, and counts of invalid values. Fails if the new slapd would store an entry differently.
    pub fn run(&self, reader: &Reader) -> Result<(Sorted, Vec<InvalidValues>)> {
        let mut findings = Findings::new(TOLD);
        structure::head(reader, &mut findings);
        let texts = structure::descriptions(reader, &mut findings);
        require_none(&findings)?;
        let columns = AttributeDescriptions::new(self.schema, &self.asked.settings, &self.asked.indexes);
        let checker = EntryChecker {
            counts_invalid: true,
            ..EntryChecker::new(self.schema, &self.asked.settings, &columns, &texts)
        };
        require_same_descriptions(&checker)?;
        let postings = self.asked.postings(self.means, self.counters);
        self.entries(reader, &texts, &checker, &postings)?;
        Ok((postings.finish(self.means.jobs)?, columns.invalid_values()))
    }

    fn entries(
        &self,
        reader: &Reader,
        texts: &[String],
        checker: &EntryChecker<'_>,
        postings: &Postings,
    ) -> Result<()> {
        let tables = Tables::of(reader).ok_or_else(|| otherwise("a table is missing"))?;
        let expected = tables.id2e.record().entries;
        self.counters.begin("entries", expected);
        let spans = id_ranges(&tables.id2e, self.means.jobs);
        let done = Mutex::new((NodeChecksums::default(), 0));
        side_by_side(reader, self.means.jobs, spans.len(), |reader, turns| {
            let tables = Tables::of(reader).ok_or_else(|| otherwise("a table is missing"))?;
            let posted = ExpectedPostings::from_1(postings.writer());
            let mut walk = Walk {
                tables,
                texts,
                scattered: false,
                judge: Some((checker, posted)),
                last: LastValues::default(),
                as_loaded: Some(AsLoaded::new(checker, &self.suffixes)),
                part: IdRangeResult::new(TOLD),
                seen: 0,
                counters: self.counters,
            };
            for at in turns.iter() {
                walk.span(spans[at])?;
                require_none(&walk.part.findings)?;
            }
            let mut done = lock(&done);
            *done = (done.0.add(walk.part.sums), done.1 + walk.part.entries);
            drop(done);
            walk.end()
        })?;
        let (sums, entries) = *lock(&done);
        if sums != NodeChecksums::default() {
            return Err(otherwise("nodes do not match the lists of their parents"));
        }
        if entries != expected {
            let message = format!("{entries} entries in id2e, which should have {expected}");
            return Err(otherwise(&message));
        }
        Ok(())
    }
}

/// Refuses descriptions that the new schema spells differently, since the new slapd would, too.
fn require_same_descriptions(checker: &EntryChecker<'_>) -> Result<()> {
    for (text, column) in &checker.columns {
        match column {
            None => return Err(otherwise(&format!("{text} is not in the schema"))),
            Some(column) if column.text != *text => {
                return Err(otherwise(&format!("{text} is called {} now", column.text)));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn require_none(findings: &Findings) -> Result<()> {
    let first = findings.problems.values().find_map(|problem| problem.told.first());
    first.map_or(Ok(()), |first| Err(otherwise(&first.to_string())))
}

fn otherwise(why: &str) -> Error {
    Error::new(Code::Unproven, why)
}
