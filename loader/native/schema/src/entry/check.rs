//! Checks of classes against each other, and of attributes against a profile.

use super::profile::{AttributeVerdict, ObjectClassSet};
use crate::schema::refusal;
use crate::special::SpecialClass;
use crate::{
    AttributeId, AttributeType, ClassId, ClassKind, ContentRule, InvalidValue, ObjectClass, Result,
    Schema,
};

/// Flags of the entry that single attributes ask for.
const ALIAS: u32 = 0x1;
const REFERRAL: u32 = 0x2;
const SUBENTRY: u32 = 0x4;
const DYNAMIC_OBJECT: u32 = 0x8;
const COLLECTIVE: u32 = 0x10;

/// Attributes compiled into slapd that only certain entries may have (`schema_prep.c`).
const ROOT_DSE: [&str; 12] = [
    "altServer",
    "namingContexts",
    "supportedControl",
    "supportedExtension",
    "supportedLDAPVersion",
    "supportedSASLMechanisms",
    "supportedFeatures",
    "monitorContext",
    "configContext",
    "vendorName",
    "vendorVersion",
    "dynamicSubtrees",
];
const SUBENTRIES: [&str; 9] = [
    "subtreeSpecification",
    "dITStructureRules",
    "dITContentRules",
    "matchingRules",
    "attributeTypes",
    "objectClasses",
    "nameForms",
    "matchingRuleUse",
    "ldapSyntaxes",
];

impl ObjectClassSet {
    /// Checks the attributes of an entry: those present, and whether each has more than one value.
    /// An attribute with options counts as its type; RDN attributes that slapadd adds count as present.
    pub fn check(&self, schema: &Schema, present: &[(AttributeId, bool)]) -> Result<()> {
        for (id, by) in &self.required {
            if !present.iter().any(|(present, _)| present == id) {
                let name = &schema.get(*id).name;
                return Err(refusal(format!("{by} requires attribute '{name}'")));
            }
        }
        for &(id, several) in present {
            match self.verdicts[id.index()] {
                AttributeVerdict::Allowed => {}
                AttributeVerdict::Single if !several => {}
                AttributeVerdict::Single => return Err(too_many(schema, id)),
                AttributeVerdict::Refused => return Err(self.why_refused(schema, id)),
            }
        }
        Ok(())
    }

    fn why_refused(&self, schema: &Schema, id: AttributeId) -> InvalidValue {
        let kind = schema.get(id);
        match schema.restriction(kind, self.flags) {
            Some(why) => refusal(format!("attribute '{}' {why}", kind.name)),
            None if self.precluded.contains(&id) => {
                refusal(format!("attribute '{}' is precluded by a content rule", kind.name))
            }
            None => {
                refusal(format!("attribute '{}' is not allowed by any object class", kind.name))
            }
        }
    }
}

fn too_many(schema: &Schema, id: AttributeId) -> InvalidValue {
    let name = &schema.get(id).name;
    refusal(format!("attribute '{name}' is single-valued and has several values"))
}

impl Schema {
    /// What `profile` says to an attribute; `listed` if classes or the content rule name it.
    pub(super) fn verdict(
        &self,
        id: AttributeId,
        listed: bool,
        profile: &ObjectClassSet,
    ) -> AttributeVerdict {
        let kind = self.get(id);
        let object_class = kind.name.eq_ignore_ascii_case("objectClass");
        let allowed = listed || kind.operational() || object_class;
        let barred =
            self.restriction(kind, profile.flags).is_some() || profile.precluded.contains(&id);
        match (allowed && !barred, kind.single_value) {
            (false, _) => AttributeVerdict::Refused,
            (true, true) => AttributeVerdict::Single,
            (true, false) => AttributeVerdict::Allowed,
        }
    }

    /// Why an attribute cannot stand in an entry with these flags, whatever its classes list.
    fn restriction(&self, kind: &AttributeType, flags: u32) -> Option<&'static str> {
        let collective = SUBENTRY | COLLECTIVE;
        if kind.collective && flags & collective != collective {
            return Some("is collective and belongs in a collective attribute subentry");
        }
        let lacks = |flag: u32| flags & flag == 0;
        match kind.name.as_str() {
            _ if !kind.builtin => None,
            name if ROOT_DSE.contains(&name) => Some("belongs in the root DSE"),
            name if SUBENTRIES.contains(&name) && lacks(SUBENTRY) => Some("belongs in a subentry"),
            "administrativeRole" => Some("is not supported by slapd"),
            "aliasedObjectName" if lacks(ALIAS) => Some("belongs in an alias"),
            "ref" if lacks(REFERRAL) => Some("belongs in a referral"),
            "entryTtl" if !self.dynamic_objects() => Some("needs the overlay dds on the database"),
            "entryTtl" if lacks(DYNAMIC_OBJECT) => Some("belongs in a dynamic object"),
            _ => None,
        }
    }

    /// Checks the classes of an entry against each other and against the content rule.
    pub(super) fn check_classes(
        &self,
        classes: &[ClassId],
        own: ClassId,
        rule: Option<&ContentRule>,
        flags: u32,
    ) -> Result<()> {
        if let Some(rule) = rule.filter(|rule| rule.obsolete) {
            return Err(refusal(format!("content rule '{}' is obsolete", rule.name)));
        }
        for class in classes.iter().map(|&id| self.object_class(id)) {
            if class.obsolete {
                return Err(refusal(format!("object class '{}' is obsolete", class.name)));
            }
            self.check_special(class, flags)?;
            let by_rule = |rule: &ContentRule| rule.auxiliary.contains(&class.id);
            match class.kind {
                ClassKind::Abstract => self.check_abstract(class, classes, own)?,
                ClassKind::Auxiliary if !rule.is_none_or(by_rule) => {
                    let rule = rule.map_or("", |rule| &rule.name);
                    return Err(refusal(format!(
                        "object class '{}' is not allowed by content rule '{rule}'",
                        class.name
                    )));
                }
                ClassKind::Auxiliary | ClassKind::Structural => {}
            }
        }
        Ok(())
    }

    /// An abstract class must be above the structural class or above an auxiliary class of the entry;
    /// alone with the structural class it cannot be.
    fn check_abstract(&self, class: &ObjectClass, classes: &[ClassId], own: ClassId) -> Result<()> {
        let auxiliary = |id: &ClassId| {
            let other = self.object_class(*id);
            other.kind == ClassKind::Auxiliary && other.is_a(class.id)
        };
        let fits = class.special == Some(SpecialClass::Top)
            || self.object_class(own).is_a(class.id)
            || classes.iter().any(auxiliary);
        if fits {
            return Ok(());
        }
        Err(refusal(format!(
            "object class '{}' is abstract and no other class is below it",
            class.name
        )))
    }

    fn check_special(&self, class: &ObjectClass, flags: u32) -> Result<()> {
        let why = match class.special {
            Some(SpecialClass::RootDse) => "is for the root DSE only",
            Some(SpecialClass::WithinSubentry) if flags & SUBENTRY == 0 => "is for subentries only",
            Some(SpecialClass::DynamicObject) if !self.dynamic_objects() => {
                "needs the overlay dds on the database"
            }
            _ => return Ok(()),
        };
        Err(refusal(format!("object class '{}' {why}", class.name)))
    }
}
