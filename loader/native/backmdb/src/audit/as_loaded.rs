//! Checks that slapadd, given an entry as slapcat prints it, would store the same entry. Normal forms may differ: slapd
//! omits them from attributes that it generates itself.
//!
//! [`super::EntryChecker`] checks that the stored data are right. This module looks for data that slapadd would add,
//! omit, refuse or store elsewhere.

use schema::{AttributeId, Normalise, ObjectClassSet};
use values::InvalidValue;

use super::entry_checker::EntryChecker;
use crate::checks::ShapeCache;
use codec::dn2i::Node;
use codec::id2e::{Stored, StoredEntry, ValueList};

/// Attributes that slapadd adds to entries that lack them (`lastmod`).
const OPERATIONAL: [&str; 6] =
    ["entryUUID", "creatorsName", "createTimestamp", "entryCSN", "modifiersName", "modifyTimestamp"];

type Answer = Result<(), InvalidValue>;

/// The state of one worker.
pub struct AsLoaded<'a> {
    checker: &'a EntryChecker<'a>,
    /// Normalised.
    suffixes: &'a [Vec<u8>],
    cache: ShapeCache,
}

impl<'a> AsLoaded<'a> {
    pub fn new(checker: &'a EntryChecker<'a>, suffixes: &'a [Vec<u8>]) -> Self {
        Self { checker, suffixes, cache: ShapeCache::default() }
    }

    /// Checks an entry. `size`: the size of its record in id2e, in bytes.
    pub fn entry(&mut self, entry: &StoredEntry<'_>, size: usize) -> Answer {
        let checker = self.checker;
        let most = checker.settings.max_entry_size;
        if most > 0 && size > most {
            return refused(format!("larger than maxentrysize ({most} bytes)"));
        }
        let classes = attribute(checker, entry, "objectClass")?.map(Stored::values).unwrap_or_default();
        let structural = attribute(checker, entry, "structuralObjectClass")?;
        let Some(structural) = structural.and_then(|stored| stored.values().next()) else {
            return refused("it has no structuralObjectClass");
        };
        self.cache.key.clear();
        self.cache.key.extend_from_slice(classes.bytes());
        self.cache.key.extend_from_slice(structural);
        let (number, profile) = self.cache.profile(|| {
            let profile = checker.schema.profile(&classes.collect::<ValueList<'_>>(), Some(structural))?;
            if profile.replaces_structural || profile.is_glue() {
                return refused("it is a glue entry");
            }
            Ok(profile)
        })?;
        self.cache.shape.clear();
        self.cache.shape.push(number);
        for stored in &entry.attributes {
            let limit = checker.column(stored.number).map_or(0, |column| column.apart_above);
            self.cache.shape.push(shape_of(stored, limit));
        }
        self.cache.check(|| check(checker, &profile, entry))
    }

    /// Checks that a node directly below the root is a configured suffix.
    pub fn name(&self, node: &Node<'_>) -> Answer {
        if node.id == 0 && !self.suffixes.iter().any(|suffix| suffix == node.normal) {
            return refused("the suffix is not one of the configuration's");
        }
        Ok(())
    }
}

/// Returns the attribute with this name; fails if its values are in id2v.
fn attribute<'p, 'e>(
    checker: &EntryChecker<'_>,
    entry: &'p StoredEntry<'e>,
    name: &str,
) -> Result<Option<&'p Stored<'e>>, InvalidValue> {
    let has_name = |stored: &&Stored<'_>| checker.column(stored.number).is_some_and(|column| column.text == name);
    match entry.attributes.iter().find(has_name) {
        Some(stored) if stored.apart => refused(format!("its values of {name} are in id2v")),
        stored => Ok(stored),
    }
}

/// Checks the attributes of an entry against the rules of its object classes.
fn check(checker: &EntryChecker<'_>, profile: &ObjectClassSet, entry: &StoredEntry<'_>) -> Answer {
    let mut present: Vec<(AttributeId, bool)> = Vec::new();
    for stored in &entry.attributes {
        present.push((check_attribute(checker, stored)?, stored.count > 1));
    }
    if checker.settings.last_mod {
        for name in OPERATIONAL {
            if attribute(checker, entry, name)?.is_none() {
                return refused(format!("it has no {name}"));
            }
        }
    }
    profile.check(checker.schema, &present)
}

fn check_attribute(checker: &EntryChecker<'_>, stored: &Stored<'_>) -> Result<AttributeId, InvalidValue> {
    let Some(column) = checker.column(stored.number) else {
        return refused("an attribute that the schema does not know");
    };
    let (text, kind) = (&column.text, checker.schema.get(column.attribute));
    if let Some(rule) = &column.unproven {
        return refused(format!("{text} is compared by {rule}"));
    }
    if column.computed {
        return refused(format!("{text} is stored, which slapd works out"));
    }
    if stored.count == 0 {
        return refused(format!("{text} has no values"));
    }
    if stored.sorted != column.sorted {
        return refused(format!("{text}: sortvals differs"));
    }
    if stored.apart != (stored.count > column.apart_above) {
        return refused(format!("{text}: multival would put its values elsewhere"));
    }
    if !stored.has_normals && kind.normaliser != Normalise::None && !kind.operational() {
        return refused(format!("{text} has no normal forms"));
    }
    Ok(column.attribute)
}

/// Packs the attribute's number and a bit for each checked property. `limit`: maximum number of values in id2e.
fn shape_of(stored: &Stored<'_>, limit: u32) -> u32 {
    let Stored { count, sorted, apart, has_normals, .. } = *stored;
    let properties = [count > 0, count > 1, count > limit, sorted, apart, has_normals];
    properties.into_iter().fold(stored.number, |shape, property| shape << 1 | u32::from(property))
}

fn refused<T>(reason: impl Into<std::borrow::Cow<'static, str>>) -> Result<T, InvalidValue> {
    Err(InvalidValue(reason.into()))
}
