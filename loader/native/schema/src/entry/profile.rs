//! All that follows from the object classes of an entry alone.

use crate::schema::refusal;
use crate::special::SpecialClass;
use crate::{AttributeId, ClassId, ClassKind, ContentRule, Result, Schema};

/// What the values of `objectClass` (and of `structuralObjectClass`, if given) mean for an entry.
/// Depends on nothing else, so it can be kept and used for all entries with the same values.
#[derive(Debug, Clone)]
pub struct ObjectClassSet {
    /// The structural class, the value of `structuralObjectClass` for an entry that has none.
    pub structural: ClassId,
    /// The entry has a `structuralObjectClass` that slapadd replaces by [`structural`](Self::structural):
    /// that of a glue entry which has become a real one.
    pub replaces_structural: bool,
    /// `ocflags` of the stored entry.
    pub flags: u32,
    /// Values for the index of `objectClass`: canonical names of the classes and all their superiors.
    pub index_values: Vec<Vec<u8>>,
    /// Required attributes, each with the class or content rule that asks for it.
    pub(super) required: Vec<(AttributeId, String)>,
    pub(super) verdicts: Vec<AttributeVerdict>,
    pub(super) precluded: Vec<AttributeId>,
    pub(super) extensible: bool,
}

/// What a profile says to an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttributeVerdict {
    Allowed,
    /// With one value.
    Single,
    Refused,
}

/// The entry's flags have been computed (`SLAP_OC__END`).
const FLAGS_COMPUTED: u32 = 0x100;

impl Schema {
    /// Works out what `classes`, the values of `objectClass` in their order, ask of an entry;
    /// `structural` is the value of `structuralObjectClass`, if there is one.
    pub fn profile(&self, classes: &[&[u8]], structural: Option<&[u8]>) -> Result<ObjectClassSet> {
        let known =
            classes.iter().map(|name| self.known_class(name)).collect::<Result<Vec<_>, _>>()?;
        let own = self.structural_class(&known)?;
        let replaces_structural = match structural {
            Some(given) => self.differs(given, own)?,
            None => false,
        };
        let rule = self.content_rule(own);
        let flags = self.flags(classes);
        self.check_classes(&known, own, rule, flags)?;
        let mut profile = ObjectClassSet {
            structural: own,
            replaces_structural,
            flags,
            index_values: self.class_index_values(classes),
            required: self.required(&known, own, rule),
            verdicts: Vec::new(),
            precluded: rule.map_or_else(Vec::new, |rule| rule.not.clone()),
            extensible: known.iter().any(|&id| self.is_special(id, SpecialClass::ExtensibleObject)),
        };
        let allowed = self.allowed(&known, own, rule);
        profile.verdicts = self
            .attributes()
            .map(|kind| {
                let listed = profile.extensible || allowed[kind.id.index()];
                self.verdict(kind.id, listed, &profile)
            })
            .collect();
        Ok(profile)
    }

    /// `ocflags` as stored in the entry, for object classes known or not.
    pub fn flags(&self, classes: &[&[u8]]) -> u32 {
        let known = classes.iter().filter_map(|name| self.class(name));
        known.fold(FLAGS_COMPUTED, |flags, id| flags | self.object_class(id).flags)
    }

    /// Values for the index of `objectClass` or `structuralObjectClass`: the canonical names of the
    /// classes and all their superiors, each class added once; unknown values as they are.
    pub fn class_index_values(&self, classes: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut met: Vec<Option<ClassId>> = classes.iter().map(|name| self.class(name)).collect();
        for at in 0..classes.len() {
            for &id in met[at].map_or(&[][..], |id| &self.object_class(id).lineage) {
                if !met.contains(&Some(id)) {
                    met.push(Some(id));
                }
            }
        }
        let unknown = |at: usize| classes.get(at).map_or_else(Vec::new, |value| value.to_vec());
        let name = |id: ClassId| self.object_class(id).name.clone().into_bytes();
        met.into_iter().enumerate().map(|(at, id)| id.map_or_else(|| unknown(at), name)).collect()
    }

    pub(super) fn is_special(&self, id: ClassId, special: SpecialClass) -> bool {
        self.object_class(id).special == Some(special)
    }

    fn known_class(&self, name: &[u8]) -> Result<ClassId> {
        let shown = || String::from_utf8_lossy(name).into_owned();
        self.class(name).ok_or_else(|| refusal(format!("unknown object class '{}'", shown())))
    }

    /// A `structuralObjectClass` other than the entry's own must be that of a glue entry.
    fn differs(&self, given: &[u8], own: ClassId) -> Result<bool> {
        let class = self.known_class(given)?;
        let (given, name) = (self.object_class(class), &self.object_class(own).name);
        if given.kind != ClassKind::Structural {
            return Err(refusal(format!(
                "structuralObjectClass '{}' is not structural",
                given.name
            )));
        }
        if class != own && !self.is_special(class, SpecialClass::Glue) {
            let given = &given.name;
            return Err(refusal(format!(
                "structuralObjectClass is '{given}', but the entry is of '{name}'"
            )));
        }
        Ok(class != own)
    }

    /// Attributes that must be present: abstract classes and the superiors of the structural class
    /// ask for theirs through their subclasses.
    fn required(
        &self,
        classes: &[ClassId],
        own: ClassId,
        rule: Option<&ContentRule>,
    ) -> Vec<(AttributeId, String)> {
        let mut required: Vec<(AttributeId, String)> = Vec::new();
        let mut add = |id: AttributeId, by: String| {
            if !required.iter().any(|known| known.0 == id) {
                required.push((id, by));
            }
        };
        for &id in rule.map_or(&[][..], |rule| &rule.must) {
            add(id, format!("content rule '{}'", rule.map_or("", |rule| &rule.name)));
        }
        for class in classes.iter().map(|&id| self.object_class(id)) {
            if class.id == own || class.kind == ClassKind::Auxiliary {
                class.must.iter().for_each(|&id| add(id, format!("object class '{}'", class.name)));
            }
        }
        required
    }

    /// For each attribute type: the structural class, an auxiliary class or the content rule lists it.
    fn allowed(&self, classes: &[ClassId], own: ClassId, rule: Option<&ContentRule>) -> Vec<bool> {
        let mut allowed = vec![false; self.attributes().len()];
        let mut allow = |ids: &[AttributeId]| ids.iter().for_each(|id| allowed[id.index()] = true);
        for class in classes.iter().map(|&id| self.object_class(id)) {
            if class.id == own || class.kind == ClassKind::Auxiliary {
                allow(&class.must);
                allow(&class.may);
            }
        }
        if let Some(rule) = rule {
            allow(&rule.must);
            allow(&rule.may);
        }
        allowed
    }
}
