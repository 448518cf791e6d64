//! Checks entries against the schema. Answers are cached: entries have few shapes.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use schema::{AttributeId, ObjectClassSet, Schema};
use values::InvalidValue;

use crate::draft::{Attribute, EntryLines, Shape};
use crate::lookup::Lookup;

/// Cached answers; beyond that they are computed again.
const SHAPES: usize = 65_536;

pub struct SchemaCheck<'a> {
    schema: &'a Schema,
    object_class: usize,
    structural: usize,
    profiles: FxHashMap<Vec<u8>, (u32, Arc<ObjectClassSet>)>,
    shapes: FxHashSet<Vec<u32>>,
    key: Vec<u8>,
    /// Key of the previous entry, and its profile.
    last_key: Vec<u8>,
    last: Option<(u32, Arc<ObjectClassSet>)>,
    shape: Vec<u32>,
    /// The last valid shape for the classes of `last`.
    allowed: Option<Shape>,
}

impl<'a> SchemaCheck<'a> {
    pub fn new(schema: &'a Schema, lookup: &mut Lookup<'_>) -> Result<Self, InvalidValue> {
        Ok(Self {
            schema,
            object_class: lookup.column(b"objectClass")?,
            structural: lookup.column(b"structuralObjectClass")?,
            profiles: FxHashMap::default(),
            shapes: FxHashSet::default(),
            key: Vec::new(),
            last_key: Vec::new(),
            last: None,
            shape: Vec::new(),
            allowed: None,
        })
    }

    pub const fn object_class(&self) -> usize {
        self.object_class
    }

    /// Returns the column of structuralObjectClass.
    pub const fn structural(&self) -> usize {
        self.structural
    }

    /// Returns the profile that follows from the entry's object classes, and its number.
    pub fn profile(&mut self, draft: &EntryLines) -> Result<(u32, Arc<ObjectClassSet>), InvalidValue> {
        let classes = draft.find(self.object_class).ok_or(InvalidValue("no objectClass".into()))?;
        let structural = draft.find(self.structural);
        self.key.clear();
        for value in draft.values_of(classes) {
            self.key.extend_from_slice(value);
            self.key.push(0);
        }
        self.key.push(0);
        let given = structural.and_then(|one| draft.values_of(one).next());
        self.key.extend_from_slice(given.unwrap_or_default());
        if let Some(last) = self.last.as_ref().filter(|_| self.key == self.last_key) {
            return Ok(last.clone());
        }
        let profile = self.known_profile(draft, classes, given)?;
        std::mem::swap(&mut self.key, &mut self.last_key);
        (self.last, self.allowed) = (Some(profile.clone()), None);
        Ok(profile)
    }

    /// Looks up the profile by `key`, or computes it.
    fn known_profile(
        &mut self,
        draft: &EntryLines,
        classes: &Attribute,
        given: Option<&[u8]>,
    ) -> Result<(u32, Arc<ObjectClassSet>), InvalidValue> {
        if let Some(profile) = self.profiles.get(&self.key) {
            return Ok(profile.clone());
        }
        let values: Vec<&[u8]> = draft.values_of(classes).collect();
        let profile = Arc::new(self.schema.profile(&values, given)?);
        if self.profiles.len() >= SHAPES {
            self.profiles.clear();
            self.shapes.clear();
        }
        let number = u32::try_from(self.profiles.len()).unwrap_or(u32::MAX);
        self.profiles.insert(self.key.clone(), (number, Arc::clone(&profile)));
        Ok((number, profile))
    }

    /// Checks MUST, MAY, SINGLE-VALUE and the other rules of the schema.
    pub fn attributes(
        &mut self,
        (number, profile): (u32, &ObjectClassSet),
        draft: &EntryLines,
        lookup: &Lookup<'_>,
    ) -> Result<(), InvalidValue> {
        if self.allowed.as_ref().is_some_and(|allowed| allowed.is_of(draft)) {
            return Ok(());
        }
        self.known_attributes((number, profile), draft, lookup)?;
        self.allowed.get_or_insert_default().keep(draft);
        Ok(())
    }

    /// Looks up the shape, or checks it.
    fn known_attributes(
        &mut self,
        (number, profile): (u32, &ObjectClassSet),
        draft: &EntryLines,
        lookup: &Lookup<'_>,
    ) -> Result<(), InvalidValue> {
        self.shape.clear();
        self.shape.push(number);
        for one in &draft.attributes {
            let many = u32::from(one.count > 1);
            self.shape.push(u32::try_from(one.column).unwrap_or(u32::MAX) << 1 | many);
        }
        if self.shapes.contains(&self.shape) {
            return Ok(());
        }
        let present = draft.attributes.iter().map(|one| (lookup.get(one.column).attribute, one.count > 1));
        let present: Vec<(AttributeId, bool)> = present.collect();
        profile.check(self.schema, &present)?;
        if self.shapes.len() < SHAPES {
            self.shapes.insert(self.shape.clone());
        }
        Ok(())
    }
}
