//! Checks every entry against the new configuration, and generates its index keys.

use std::sync::Mutex;

use extsort::{Postings, Sorted};
use ldif::Counters;
use lmdbfile::Reader;
use schema::Schema;

use crate::audit::as_loaded::AsLoaded;
use crate::audit::findings::Findings;
use crate::audit::indexes::ExpectedPostings;
use crate::audit::node_parents::NodeChecksums;
use crate::audit::walk::{Walk, each_range};
use crate::audit::{EntryChecker, structure};
use crate::descriptions::{AttributeDescriptions, InvalidValues};
use crate::indexes::Indexes;
use crate::verify::{Resources, table};
use crate::{Code, Error, Result, Settings, lock};

/// Number of findings that are kept: the first finding ends the conversion.
const FINDINGS: usize = 1;

pub struct Check<'a> {
    schema: &'a Schema,
    settings: &'a Settings,
    indexes: &'a Indexes,
    resources: &'a Resources,
    counters: &'a Counters,
    /// Normalised.
    suffixes: Vec<Vec<u8>>,
}

impl<'a> Check<'a> {
    pub fn new(
        (schema, settings): (&'a Schema, &'a Settings),
        indexes: &'a Indexes,
        resources: &'a Resources,
        counters: &'a Counters,
    ) -> Result<Self> {
        if settings.translucent {
            return Err(unproven("the overlay translucent"));
        }
        if !settings.foreign.is_empty() {
            return Err(unproven("other databases below this one"));
        }
        let normal = |suffix: &String| match schema.dn(suffix.as_bytes()) {
            Ok(dn) if !dn.rdns.is_empty() => Ok(dn.normal()),
            _ => Err(unproven("the suffix \"\"")),
        };
        let suffixes = settings.suffixes.iter().map(normal).collect::<Result<_>>()?;
        Ok(Self { schema, settings, indexes, resources, counters, suffixes })
    }

    /// Returns all index keys, and counts of invalid values. Fails if the new slapd would store an entry differently.
    pub fn run(&self, reader: &Reader) -> Result<(Sorted, Vec<InvalidValues>)> {
        let mut findings = Findings::new(FINDINGS);
        structure::head(reader, &mut findings);
        let texts = structure::descriptions(reader, &mut findings);
        require_none(&findings)?;
        let columns = AttributeDescriptions::new(self.schema, self.settings, self.indexes);
        let checker =
            EntryChecker { counts_invalid: true, ..EntryChecker::new(self.schema, self.settings, &columns, &texts) };
        require_same_descriptions(&checker)?;
        let Resources { memory, jobs, scratch } = self.resources;
        let postings = self.indexes.postings(*memory, scratch, self.counters.flag());
        self.entries(reader, &texts, &checker, &postings)?;
        Ok((postings.finish(*jobs)?, columns.invalid_values()))
    }

    fn entries(
        &self,
        reader: &Reader,
        texts: &[String],
        checker: &EntryChecker<'_>,
        postings: &Postings,
    ) -> Result<()> {
        let expected = table(reader, "id2e")?.record().entries;
        let total = Mutex::new((NodeChecksums::default(), 0));
        each_range(
            reader,
            (self.resources.jobs, self.counters),
            |tables| Walk {
                checker: Some((checker, ExpectedPostings::from_1(postings.writer()))),
                as_loaded: Some(AsLoaded::new(checker, &self.suffixes)),
                ..Walk::new(&tables, texts, FINDINGS, self.counters)
            },
            |_, part| {
                require_none(&part.findings)?;
                let mut total = lock(&total);
                *total = (total.0.add(part.sums), total.1 + part.entries);
                Ok(())
            },
        )?;
        let (sums, entries) = *lock(&total);
        if sums != NodeChecksums::default() {
            return Err(unproven("nodes do not match the lists of their parents"));
        }
        if entries != expected {
            let message = format!("{entries} entries in id2e, which should have {expected}");
            return Err(unproven(&message));
        }
        Ok(())
    }
}

/// Refuses attribute descriptions that the new schema spells differently: the new slapd would change the spelling.
fn require_same_descriptions(checker: &EntryChecker<'_>) -> Result<()> {
    for (text, column) in &checker.columns {
        match column {
            None => return Err(unproven(&format!("{text} is not in the schema"))),
            Some(column) if column.text != *text => {
                return Err(unproven(&format!("{text} is called {} now", column.text)));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn require_none(findings: &Findings) -> Result<()> {
    let first = findings.problems.values().find_map(|problem| problem.told.first());
    first.map_or(Ok(()), |first| Err(unproven(&first.to_string())))
}

fn unproven(reason: &str) -> Error {
    Error::new(Code::Unproven, reason)
}
