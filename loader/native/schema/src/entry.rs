//! Checks which attributes an entry must have and may have (`servers/slapd/schema_check.c`).

use crate::class::SpecialClass;
use crate::{
    AttributeId, AttributeType, Ava, ClassId, ClassKind, ContentRule, InvalidValue, ObjectClass, Rdn, Result, RuleKind,
    Schema, refuse,
};

/// Flags that an entry's object classes set, and that certain attributes require.
const ALIAS: u32 = 0x1;
const REFERRAL: u32 = 0x2;
const SUBENTRY: u32 = 0x4;
const DYNAMIC_OBJECT: u32 = 0x8;
const COLLECTIVE: u32 = 0x10;
const GLUE: u32 = 0x20;

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

/// The requirements that follow from the values of `objectClass` (and of `structuralObjectClass`, if present). All
/// entries with the same values have the same requirements, so these can be cached.
#[derive(Debug, Clone)]
pub struct ObjectClassSet {
    /// The structural class, which becomes `structuralObjectClass` if the entry has none.
    pub structural: ClassId,
    /// Whether slapadd replaces the entry's `structuralObjectClass` by [`structural`](Self::structural), as in a glue
    /// entry that has become a real entry.
    pub replaces_structural: bool,
    /// The flags (`ocflags`) that slapd stores in the entry.
    pub flags: u32,
    /// Values for the index of `objectClass`: the canonical names of all classes and of all their superiors.
    pub index_values: Vec<Vec<u8>>,
    /// Required attributes, each with the class or content rule that requires it.
    required: Vec<(AttributeId, String)>,
    verdicts: Vec<AttributeVerdict>,
    precluded: Vec<AttributeId>,
}

/// Whether the object classes permit an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AttributeVerdict {
    Allowed,
    /// Allowed, but only with a single value.
    Single,
    Refused,
}

/// slapd's flag which says that the other flags are computed (`SLAP_OC__END`).
const FLAGS_COMPUTED: u32 = 0x100;

impl ObjectClassSet {
    /// Checks the attributes of an entry. `present` has the type of each attribute, and whether it has several values.
    /// RDN attributes that slapadd adds count as present.
    pub fn check(&self, schema: &Schema, present: &[(AttributeId, bool)]) -> Result<()> {
        for (id, by) in &self.required {
            if !present.iter().any(|(present, _)| present == id) {
                return refuse(format!("{by} requires attribute '{}'", schema.get(*id).name));
            }
        }
        for &(id, several) in present {
            let why = match self.verdicts[id.index()] {
                AttributeVerdict::Single if several => "is single-valued and has several values",
                AttributeVerdict::Allowed | AttributeVerdict::Single => continue,
                AttributeVerdict::Refused => match schema.restriction(schema.get(id), self.flags) {
                    Some(why) => why,
                    None if self.precluded.contains(&id) => "is precluded by a content rule",
                    None => "is not allowed by any object class",
                },
            };
            return refuse(format!("attribute '{}' {why}", schema.get(id).name));
        }
        Ok(())
    }

    /// Whether the entry is a glue entry, whose naming attributes slapd neither checks nor adds.
    pub fn is_glue(&self) -> bool {
        self.flags & GLUE != 0
    }
}

impl Schema {
    /// Derives the requirements for an entry from `classes`, the values of its `objectClass` in order, and from
    /// `structural`, the value of its `structuralObjectClass`, if it has one.
    pub fn profile(&self, classes: &[&[u8]], structural: Option<&[u8]>) -> Result<ObjectClassSet> {
        let known = classes.iter().map(|name| self.known_class(name)).collect::<Result<Vec<_>, _>>()?;
        let own = self.structural_class(&known)?;
        let replaces_structural = match structural {
            Some(name) => self.differs(name, own)?,
            None => false,
        };
        let rule = self.content_rule(own);
        let flags = self.flags(classes);
        self.check_classes(&known, own, rule, flags)?;
        // All other classes are abstract or superiors of the structural class, and their attributes are inherited.
        let is_listing = |class: &&ObjectClass| class.id == own || class.kind == ClassKind::Auxiliary;
        let listing: Vec<_> = known.iter().map(|&id| self.object_class(id)).filter(is_listing).collect();
        let mut profile = ObjectClassSet {
            structural: own,
            replaces_structural,
            flags,
            index_values: self.class_index_values(classes),
            required: Self::required(&listing, rule),
            verdicts: Vec::new(),
            precluded: rule.map_or_else(Vec::new, |rule| rule.not.clone()),
        };
        let extensible = known.iter().any(|&id| self.object_class(id).special == Some(SpecialClass::ExtensibleObject));
        let allowed = self.allowed(&listing, rule);
        profile.verdicts = self
            .attributes()
            .map(|kind| self.verdict(kind, extensible || allowed[kind.id.index()], &profile))
            .collect();
        Ok(profile)
    }

    /// Returns the flags (`ocflags`) that slapd stores in an entry; unknown object classes are ignored.
    pub fn flags(&self, classes: &[&[u8]]) -> u32 {
        let known = classes.iter().filter_map(|name| self.class(name));
        known.fold(FLAGS_COMPUTED, |flags, id| flags | self.object_class(id).flags)
    }

    /// Returns the values for the index of `objectClass` or `structuralObjectClass`: the canonical names of all classes
    /// and their superiors without duplicates. Unknown values are returned unchanged.
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

    fn known_class(&self, name: &[u8]) -> Result<ClassId> {
        let unknown = || refuse(format!("unknown object class '{}'", String::from_utf8_lossy(name)));
        self.class(name).map_or_else(unknown, Ok)
    }

    /// Whether `structuralObjectClass` (`value`) differs from `own`. Returns an error if it differs and is not `glue`.
    fn differs(&self, value: &[u8], own: ClassId) -> Result<bool> {
        let class = self.object_class(self.known_class(value)?);
        if class.kind != ClassKind::Structural {
            return refuse(format!("structuralObjectClass '{}' is not structural", class.name));
        }
        if class.id != own && class.special != Some(SpecialClass::Glue) {
            let (stored, name) = (&class.name, &self.object_class(own).name);
            return refuse(format!("structuralObjectClass is '{stored}', but the entry is of '{name}'"));
        }
        Ok(class.id != own)
    }

    /// Returns the attributes that a class or the content rule requires, each with the name of the class or rule.
    fn required(classes: &[&ObjectClass], rule: Option<&ContentRule>) -> Vec<(AttributeId, String)> {
        let mut required: Vec<(AttributeId, String)> = Vec::new();
        let mut add = |id: AttributeId, by: String| {
            if !required.iter().any(|known| known.0 == id) {
                required.push((id, by));
            }
        };
        if let Some(rule) = rule {
            rule.must.iter().for_each(|&id| add(id, format!("content rule '{}'", rule.name)));
        }
        for class in classes {
            class.must.iter().for_each(|&id| add(id, format!("object class '{}'", class.name)));
        }
        required
    }

    /// Returns for each attribute type whether a class or the content rule lists it.
    fn allowed(&self, classes: &[&ObjectClass], rule: Option<&ContentRule>) -> Vec<bool> {
        let mut allowed = vec![false; self.attributes().len()];
        let mut allow = |ids: &[AttributeId]| ids.iter().for_each(|id| allowed[id.index()] = true);
        for class in classes {
            allow(&class.must);
            allow(&class.may);
        }
        if let Some(rule) = rule {
            allow(&rule.must);
            allow(&rule.may);
        }
        allowed
    }

    /// Returns the most specific structural class. All structural classes must be on one inheritance chain, but slapd
    /// accepts two classes on different chains if a later class in the list is a subclass of both.
    fn structural_class(&self, classes: &[ClassId]) -> Result<ClassId> {
        let structural = |id: ClassId| self.object_class(id).kind == ClassKind::Structural;
        let below = |sub: ClassId, sup: ClassId| self.object_class(sub).is_a(sup);
        let mut most_specific: Option<ClassId> = None;
        for (at, &class) in classes.iter().enumerate().filter(|(_, class)| structural(**class)) {
            let Some(best) = most_specific.filter(|&best| !below(class, best)) else {
                most_specific = Some(class);
                continue;
            };
            let joins = |&&later: &&ClassId| structural(later) && below(later, best) && below(later, class);
            if !below(best, class) && !classes[at + 1..].iter().any(|later| joins(&later)) {
                let (one, other) = (&self.object_class(best).name, &self.object_class(class).name);
                return refuse(format!("structural object classes '{one}' and '{other}' are not on one chain"));
            }
        }
        most_specific.ok_or_else(|| InvalidValue("no structural object class".into()))
    }

    /// Decides whether an entry may have an attribute. `listed` tells whether a class or the content rule lists it.
    fn verdict(&self, kind: &AttributeType, listed: bool, profile: &ObjectClassSet) -> AttributeVerdict {
        let object_class = kind.name.eq_ignore_ascii_case("objectClass");
        let allowed = listed || kind.operational() || object_class;
        let barred = self.restriction(kind, profile.flags).is_some() || profile.precluded.contains(&kind.id);
        match (allowed && !barred, kind.single_value) {
            (false, _) => AttributeVerdict::Refused,
            (true, true) => AttributeVerdict::Single,
            (true, false) => AttributeVerdict::Allowed,
        }
    }

    /// Returns the reason why an entry with these flags cannot have an attribute, whatever its object classes list.
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

    /// Checks the object classes of an entry against each other and against the content rule.
    fn check_classes(&self, classes: &[ClassId], own: ClassId, rule: Option<&ContentRule>, flags: u32) -> Result<()> {
        if let Some(rule) = rule.filter(|rule| rule.obsolete) {
            return refuse(format!("content rule '{}' is obsolete", rule.name));
        }
        for class in classes.iter().map(|&id| self.object_class(id)) {
            if class.obsolete {
                return refuse(format!("object class '{}' is obsolete", class.name));
            }
            self.check_special(class, flags)?;
            let by_rule = |rule: &ContentRule| rule.auxiliary.contains(&class.id);
            match class.kind {
                ClassKind::Abstract => self.check_abstract(class, classes, own)?,
                ClassKind::Auxiliary if !rule.is_none_or(by_rule) => {
                    let rule = rule.map_or("", |rule| &rule.name);
                    return refuse(format!("object class '{}' is not allowed by content rule '{rule}'", class.name));
                }
                ClassKind::Auxiliary | ClassKind::Structural => {}
            }
        }
        Ok(())
    }

    /// Checks that an abstract class is a superior of the entry's structural class or of one of its auxiliary classes.
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
        refuse(format!("object class '{}' is abstract and no other class is below it", class.name))
    }

    fn check_special(&self, class: &ObjectClass, flags: u32) -> Result<()> {
        let why = match class.special {
            Some(SpecialClass::RootDse) => "is for the root DSE only",
            Some(SpecialClass::WithinSubentry) if flags & SUBENTRY == 0 => "is for subentries only",
            Some(SpecialClass::DynamicObject) if !self.dynamic_objects() => "needs the overlay dds on the database",
            _ => return Ok(()),
        };
        refuse(format!("object class '{}' {why}", class.name))
    }

    /// Checks that the attributes of an RDN can name an entry. Whether the entry has the values is checked by
    /// [`rdn_value_held`](Self::rdn_value_held).
    pub fn check_naming(&self, rdn: &Rdn) -> Result<()> {
        for kind in rdn.avas.iter().map(|ava| self.get(ava.attribute)) {
            let why = match &kind.equality {
                _ if kind.operational() => "is operational",
                _ if kind.collective => "is collective",
                _ if kind.obsolete => "is obsolete",
                None => "has no equality matching rule",
                Some(rule) if !rule.matches => "has an equality matching rule that slapd does not support",
                Some(_) => continue,
            };
            return refuse(format!("naming attribute '{}' {why}", kind.name));
        }
        Ok(())
    }

    /// Whether an attribute's values `stored` contain the RDN's value `asserted`. All values must be in the form in
    /// which they are compared: normalized if the type has a normal form.
    pub fn rdn_value_held<'a>(&self, ava: &Ava, asserted: &[u8], stored: impl IntoIterator<Item = &'a [u8]>) -> bool {
        let kind = self.get(ava.attribute);
        let rule = kind.equality.as_ref().map(|rule| rule.kind);
        stored.into_iter().any(|value| match rule {
            Some(RuleKind::ObjectClass) => self.class_is_a(value, asserted),
            _ => kind.order.compare(value, asserted).is_eq(),
        })
    }

    fn class_is_a(&self, value: &[u8], asserted: &[u8]) -> bool {
        let classes = self.class(value).zip(self.class(asserted));
        classes.is_some_and(|(value, asserted)| self.object_class(value).is_a(asserted))
    }
}
