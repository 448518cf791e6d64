//! Checks an entry and adds missing attributes.

use std::cmp::Ordering;

use schema::ObjectClassSet;
use values::InvalidValue;

use super::Encoder;
use crate::checks::Profile;
use crate::draft::ValueSpans;
use crate::naming::HashedDn;

impl Encoder<'_> {
    /// Checks the entry and adds missing attributes, in slapadd's order.
    pub(super) fn complete(&mut self, place: &HashedDn, position: u32) -> Result<Profile, InvalidValue> {
        let profile = self.checks.profile(&self.draft)?;
        let (naming_first, check) = (self.shared.settings.of_2_7, self.shared.options.check_schema);
        if !naming_first || !check {
            self.complete_structural(&profile.1);
        }
        if check {
            if !profile.1.is_glue() {
                self.shared.schema.check_naming(&place.rdn)?;
                self.complete_naming(place)?;
            }
            if naming_first {
                self.complete_structural(&profile.1);
            }
            self.checks.attributes((profile.0, &profile.1), &self.draft, &self.lookup)?;
        }
        // slapd creates a glue entry of the empty DN only for contextCSN, and adds no other attributes to it
        // (`syncrepl_add_glue`).
        let is_glue_root = profile.1.is_glue() && place.rdn.avas.is_empty() && self.shared.claim.is_some();
        if self.shared.settings.last_mod && !is_glue_root {
            self.generated_uuid = self.operational.complete(&mut self.draft, place.hash, position);
        }
        Ok(profile)
    }

    /// Adds a missing structuralObjectClass, or replaces that of a glue entry.
    fn complete_structural(&mut self, profile: &ObjectClassSet) {
        let structural = self.checks.structural;
        let index = self.draft.position(structural);
        if index.is_some() && !profile.replaces_structural {
            return;
        }
        let name = &self.shared.schema.object_class(profile.structural).name;
        let value = self.draft.add_bytes(name.as_bytes());
        let pair = ValueSpans { value, normal: value };
        match index {
            None => self.draft.add_line(structural, pair, false),
            Some(index) => {
                self.draft.attributes[index].count = 0;
                self.draft.add_value(index, pair);
            }
        }
    }

    /// Adds RDN values that the entry lacks.
    fn complete_naming(&mut self, place: &HashedDn) -> Result<(), InvalidValue> {
        let schema = self.shared.schema;
        for ava in &place.rdn.avas {
            let kind = schema.get(ava.attribute);
            let column = self.lookup.column(kind.name.as_bytes())?;
            let Some(index) = self.draft.position(column) else {
                self.may_complete(&kind.name)?;
                let (pair, normals) = self.pair(column, &ava.value)?;
                self.draft.add_line(column, pair, normals);
                continue;
            };
            let attribute = self.draft.attributes[index];
            if self.draft.values_of(&attribute).any(|value| value == ava.value) {
                continue;
            }
            let (pair, _) = self.pair(column, &ava.value)?;
            if schema.rdn_value_held(ava, self.draft.bytes_of(pair.normal), self.draft.normals_of(&attribute)) {
                continue;
            }
            if kind.single_value {
                let name = &kind.name;
                return Err(InvalidValue(format!("{name}: the RDN has another value than the entry").into()));
            }
            self.may_complete(&kind.name)?;
            self.draft.add_value(index, pair);
        }
        Ok(())
    }

    fn may_complete(&self, name: &str) -> Result<(), InvalidValue> {
        if self.shared.options.complete_naming {
            return Ok(());
        }
        Err(InvalidValue(format!("{name}: the entry lacks the value that its RDN has").into()))
    }

    /// Sorts the values of the attributes in `sortvals` by their equality rule. Fails if two values are equal.
    pub(super) fn sort(&mut self) -> Result<(), InvalidValue> {
        if self.shared.settings.sorted.is_empty() {
            return Ok(());
        }
        for attribute in &self.draft.attributes {
            let column = self.lookup.get(attribute.column);
            if !column.sorted || !attribute.normals && attribute.count == 1 {
                continue;
            }
            let bytes = &self.draft.bytes;
            let normal = |pair: &ValueSpans| &bytes[pair.normal.at..pair.normal.at + pair.normal.length];
            let pairs = &mut self.draft.pairs[attribute.first..attribute.first + attribute.count];
            pairs.sort_by(|left, right| column.order.compare(normal(left), normal(right)));
            let twice =
                |pair: &[ValueSpans]| column.order.compare(normal(&pair[0]), normal(&pair[1])) == Ordering::Equal;
            if pairs.windows(2).any(twice) {
                return Err(InvalidValue(format!("{}: a value is given more than once", column.text).into()));
            }
        }
        Ok(())
    }
}
