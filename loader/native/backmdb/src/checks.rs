//! Checks entries against the schema. The results are cached, because entries have few shapes.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use schema::{AttributeId, ObjectClassSet, Schema};
use values::InvalidValue;

use crate::draft::{EntryLines, Shape};
use crate::lookup::Lookup;

/// Maximum number of cached profiles, and of cached shapes. Further shapes are checked each time.
const SHAPES: usize = 65_536;

/// A profile (the rules that follow from an entry's object classes), and its number.
pub type Profile = (u32, Arc<ObjectClassSet>);

/// Caches profiles, and the shapes of entries that satisfy them.
#[derive(Default)]
pub struct ShapeCache {
    profiles: FxHashMap<Vec<u8>, Profile>,
    shapes: FxHashSet<Vec<u32>>,
    /// The object classes of the current entry.
    pub key: Vec<u8>,
    /// The shape of the current entry: the number of its profile, and the checked properties of each attribute.
    pub shape: Vec<u32>,
}

impl ShapeCache {
    /// Returns the profile for the current `key`.
    pub fn profile(
        &mut self,
        compute: impl FnOnce() -> Result<ObjectClassSet, InvalidValue>,
    ) -> Result<Profile, InvalidValue> {
        if let Some(profile) = self.profiles.get(&self.key) {
            return Ok(profile.clone());
        }
        let profile = Arc::new(compute()?);
        if self.profiles.len() >= SHAPES {
            self.profiles.clear();
            self.shapes.clear();
        }
        let number = u32::try_from(self.profiles.len()).unwrap_or(u32::MAX);
        self.profiles.insert(self.key.clone(), (number, Arc::clone(&profile)));
        Ok((number, profile))
    }

    /// Calls `check` unless an entry with the current `shape` has passed it.
    pub fn check(&mut self, check: impl FnOnce() -> Result<(), InvalidValue>) -> Result<(), InvalidValue> {
        if self.shapes.contains(&self.shape) {
            return Ok(());
        }
        check()?;
        if self.shapes.len() < SHAPES {
            self.shapes.insert(self.shape.clone());
        }
        Ok(())
    }
}

pub struct SchemaCheck<'a> {
    schema: &'a Schema,
    /// The columns of objectClass and structuralObjectClass.
    pub object_class: usize,
    pub structural: usize,
    cache: ShapeCache,
    /// Key of the previous entry, and its profile.
    last_key: Vec<u8>,
    last: Option<Profile>,
    /// The last valid shape for the profile `last`.
    allowed: Option<Shape>,
}

impl<'a> SchemaCheck<'a> {
    pub fn new(schema: &'a Schema, lookup: &mut Lookup<'_>) -> Result<Self, InvalidValue> {
        Ok(Self {
            schema,
            object_class: lookup.column(b"objectClass")?,
            structural: lookup.column(b"structuralObjectClass")?,
            cache: ShapeCache::default(),
            last_key: Vec::new(),
            last: None,
            allowed: None,
        })
    }

    /// Returns the profile of the entry's object classes.
    pub fn profile(&mut self, draft: &EntryLines) -> Result<Profile, InvalidValue> {
        let classes = draft.find(self.object_class).ok_or(InvalidValue("no objectClass".into()))?;
        let structural = draft.find(self.structural).and_then(|attribute| draft.values_of(attribute).next());
        let key = &mut self.cache.key;
        key.clear();
        for value in draft.values_of(classes) {
            key.extend_from_slice(value);
            key.push(0);
        }
        key.push(0);
        key.extend_from_slice(structural.unwrap_or_default());
        if let Some(last) = self.last.as_ref().filter(|_| *key == self.last_key) {
            return Ok(last.clone());
        }
        let compute = || self.schema.profile(&draft.values_of(classes).collect::<Vec<_>>(), structural);
        let profile = self.cache.profile(compute)?;
        std::mem::swap(&mut self.cache.key, &mut self.last_key);
        (self.last, self.allowed) = (Some(profile.clone()), None);
        Ok(profile)
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
        let shape = &mut self.cache.shape;
        shape.clear();
        shape.push(number);
        for attribute in &draft.attributes {
            let many = u32::from(attribute.count > 1);
            shape.push(u32::try_from(attribute.column).unwrap_or(u32::MAX) << 1 | many);
        }
        self.cache.check(|| {
            let present = draft.attributes.iter().map(|own| (lookup.get(own.column).attribute, own.count > 1));
            profile.check(self.schema, &present.collect::<Vec<(AttributeId, bool)>>())
        })?;
        self.allowed.get_or_insert_default().keep(draft);
        Ok(())
    }
}
