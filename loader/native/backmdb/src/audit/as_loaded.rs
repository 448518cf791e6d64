//! Checks that slapadd would store an entry unchanged from slapcat's output, except for normal forms that slapd omits
//! from attributes it generates itself.
//!
//! [`super::EntryChecker`] checks that the stored data are right; this checks for data that slapadd would add, omit,
//! refuse or store elsewhere.

use rustc_hash::{FxHashMap, FxHashSet};
use schema::{AttributeId, Normalise, ObjectClassSet};
use values::InvalidValue;

use super::entry_checker::EntryChecker;
use codec::dn2i::Node;
use codec::id2e::{Stored, StoredEntry, ValueList};

/// Cached answers; beyond that they are computed again.
const SHAPES: usize = 65_536;

/// Attributes that slapadd adds to entries that lack them (`lastmod`).
const OPERATIONAL: [&str; 6] =
    ["entryUUID", "creatorsName", "createTimestamp", "entryCSN", "modifiersName", "modifyTimestamp"];

type Answer = Result<(), InvalidValue>;

/// The state of one worker, with its cached answers.
pub struct AsLoaded<'a> {
    checker: &'a EntryChecker<'a>,
    /// Normalised.
    suffixes: &'a [Vec<u8>],
    profiles: FxHashMap<Vec<u8>, (u32, ObjectClassSet)>,
    /// Shapes of valid entries: the number of the profile, then each attribute as returned by [`shape_of`].
    shapes: FxHashSet<Vec<u32>>,
    key: Vec<u8>,
    shape: Vec<u32>,
}

impl<'a> AsLoaded<'a> {
    pub fn new(checker: &'a EntryChecker<'a>, suffixes: &'a [Vec<u8>]) -> Self {
        Self {
            checker,
            suffixes,
            profiles: FxHashMap::default(),
            shapes: FxHashSet::default(),
            key: Vec::new(),
            shape: Vec::new(),
        }
    }

    /// `size`: bytes of its record in id2e.
    pub fn entry(&mut self, entry: &StoredEntry<'_>, size: usize) -> Answer {
        let most = self.checker.settings.max_entry_size;
        if most > 0 && size > most {
            return refused(format!("larger than maxentrysize ({most} bytes)"));
        }
        let classes = self.only(entry, "objectClass")?;
        let structural = self.only(entry, "structuralObjectClass")?;
        let Some(structural) = structural.and_then(|one| one.values().next()) else {
            return refused("it has no structuralObjectClass");
        };
        let number = self.profile(classes, structural)?;
        self.shape.clear();
        self.shape.push(number);
        for one in &entry.attributes {
            let column = self.checker.column(one.number);
            let limit = column.map_or(0, |column| column.apart_above);
            self.shape.push(shape_of(one, limit));
        }
        if self.shapes.contains(&self.shape) {
            return Ok(());
        }
        self.attributes(entry)?;
        if self.shapes.len() < SHAPES {
            self.shapes.insert(self.shape.clone());
        }
        Ok(())
    }

    /// Checks that a suffix node is a suffix of the configuration.
    pub fn name(&self, node: &Node<'_>) -> Answer {
        if node.id == 0 && !self.suffixes.iter().any(|suffix| suffix == node.normal) {
            return refused("the suffix is not one of the configuration's");
        }
        Ok(())
    }

    fn only<'p, 'e>(&self, entry: &'p StoredEntry<'e>, name: &str) -> Result<Option<&'p Stored<'e>>, InvalidValue> {
        let is_it = |one: &&Stored<'_>| self.checker.column(one.number).is_some_and(|column| column.text == name);
        match entry.attributes.iter().find(is_it) {
            Some(one) if one.apart => refused(format!("its values of {name} are in id2v")),
            found => Ok(found),
        }
    }

    /// Returns the number of the profile that follows from the entry's classes.
    fn profile(&mut self, classes: Option<&Stored<'_>>, structural: &[u8]) -> Result<u32, InvalidValue> {
        let classes = classes.map(Stored::values).unwrap_or_default();
        self.key.clear();
        self.key.extend_from_slice(classes.bytes());
        self.key.extend_from_slice(structural);
        if let Some((number, _)) = self.profiles.get(&self.key) {
            return Ok(*number);
        }
        let classes: ValueList<'_> = classes.collect();
        let profile = self.checker.schema.profile(&classes, Some(structural))?;
        if profile.replaces_structural || profile.is_glue() {
            return refused("it is a glue entry");
        }
        if self.profiles.len() >= SHAPES {
            self.profiles.clear();
            self.shapes.clear();
        }
        let number = u32::try_from(self.profiles.len()).unwrap_or(u32::MAX);
        self.profiles.insert(self.key.clone(), (number, profile));
        Ok(number)
    }

    /// Checks the attributes; `self.key` selects the profile.
    fn attributes(&self, entry: &StoredEntry<'_>) -> Answer {
        let mut present: Vec<(AttributeId, bool)> = Vec::new();
        for one in &entry.attributes {
            present.push((self.attribute(one)?, one.count > 1));
        }
        if self.checker.settings.last_mod {
            for name in OPERATIONAL {
                if self.only(entry, name)?.is_none() {
                    return refused(format!("it has no {name}"));
                }
            }
        }
        match self.profiles.get(&self.key) {
            Some((_, profile)) => profile.check(self.checker.schema, &present),
            None => refused("its object classes are not known"),
        }
    }

    fn attribute(&self, one: &Stored<'_>) -> Result<AttributeId, InvalidValue> {
        let Some(column) = self.checker.column(one.number) else {
            return refused("an attribute that the schema does not know");
        };
        let (text, kind) = (&column.text, self.checker.schema.get(column.attribute));
        if let Some(rule) = &column.unproven {
            return refused(format!("{text} is compared by {rule}"));
        }
        if column.computed {
            return refused(format!("{text} is stored, which slapd works out"));
        }
        if one.count == 0 {
            return refused(format!("{text} has no values"));
        }
        if one.sorted != column.sorted {
            return refused(format!("{text}: sortvals differs"));
        }
        if one.apart != (one.count > column.apart_above) {
            return refused(format!("{text}: multival would put its values elsewhere"));
        }
        if !one.has_normals && kind.normaliser != Normalise::None && !kind.operational() {
            return refused(format!("{text} has no normal forms"));
        }
        Ok(column.attribute)
    }
}

/// Returns the attribute's number followed by all properties that are checked: has values, several values, more than
/// stay in the entry, sorted, in id2v, with normal forms.
fn shape_of(one: &Stored<'_>, limit: u32) -> u32 {
    let properties = [one.count > 0, one.count > 1, one.count > limit, one.sorted, one.apart, one.has_normals];
    properties.into_iter().fold(one.number, |shape, one| shape << 1 | u32::from(one))
}

fn refused<T>(why: impl Into<std::borrow::Cow<'static, str>>) -> Result<T, InvalidValue> {
    Err(InvalidValue(why.into()))
}
