//! Object classes and DIT content rules, including inherited attributes.

use crate::names::Names;
use crate::read::Raw;
use crate::schema::invalid;
use crate::{AttributeId, Result};

/// Number of an object class in its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub(crate) u32);

impl ClassId {
    /// Returns the number; numbers begin at 0 and have no gaps.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The kind of an object class (RFC 4512, section 2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClassKind {
    Abstract,
    #[default]
    Structural,
    Auxiliary,
}

/// An object class, including the attributes that it inherits from its superiors.
#[derive(Debug, Clone)]
pub struct ObjectClass {
    pub id: ClassId,
    pub oid: String,
    /// The first NAME as spelled in the schema; the OID if there is no NAME.
    pub name: String,
    pub names: Vec<String>,
    /// Direct superiors.
    pub sups: Vec<ClassId>,
    /// The class itself and all its superiors, direct and indirect.
    pub lineage: Vec<ClassId>,
    pub kind: ClassKind,
    pub obsolete: bool,
    /// Required attributes, including inherited ones.
    pub must: Vec<AttributeId>,
    /// Allowed attributes, including inherited ones, without the required attributes.
    pub may: Vec<AttributeId>,
    /// slapd's flag word (`SLAP_OC_*` in `servers/slapd/slap.h`). An entry stores the OR of its classes' flag words.
    pub flags: u32,
    pub(crate) special: Option<SpecialClass>,
    /// Whether the class is compiled into slapd or a module.
    pub builtin: bool,
}

/// A DIT content rule (RFC 4512 section 4.1.6).
#[derive(Debug, Clone)]
pub struct ContentRule {
    /// The first NAME, or the OID of the rule's structural class if there is no NAME.
    pub name: String,
    pub obsolete: bool,
    pub auxiliary: Vec<ClassId>,
    pub must: Vec<AttributeId>,
    pub may: Vec<AttributeId>,
    pub not: Vec<AttributeId>,
}

impl ObjectClass {
    /// Whether this class is `other` or one of its subclasses.
    pub fn is_a(&self, other: ClassId) -> bool {
        self.lineage.contains(&other)
    }
}

/// The names to which definitions of classes and content rules refer.
pub struct Sources<'a> {
    pub attribute_names: &'a Names,
    pub class_names: &'a Names,
    /// Whether the schema is from slapd 2.4.
    pub of_2_4: bool,
}

impl Sources<'_> {
    fn attributes(&self, text: &str, names: &[&str]) -> Result<Vec<AttributeId>> {
        let mut ids: Vec<AttributeId> = Vec::new();
        for name in names {
            let missing = || invalid(text, &format!("unknown attribute type \"{name}\""));
            let id = self.attribute_names.find(name.as_bytes()).map(AttributeId).ok_or_else(missing)?;
            merge(&mut ids, &[id]);
        }
        Ok(ids)
    }

    fn classes(&self, text: &str, names: &[&str]) -> Result<Vec<ClassId>> {
        let find = |name: &&str| {
            let missing = || invalid(text, &format!("unknown object class \"{name}\""));
            self.class_names.find(name.as_bytes()).map(ClassId).ok_or_else(missing)
        };
        names.iter().map(find).collect()
    }

    /// Builds all classes in the order of their definitions. A superior may be defined after its subclasses.
    pub fn resolve(&self, raws: &[Raw<'_>]) -> Result<Vec<ObjectClass>> {
        let mut classes = raws.iter().zip(0..).map(|(raw, id)| self.alone(raw, id)).collect::<Result<Vec<_>, _>>()?;
        for index in 0..classes.len() {
            let lineage = lineage(&classes, index, raws[index].text)?;
            classes[index].lineage = lineage;
        }
        let own: Vec<_> = classes.iter().map(|class| (class.must.clone(), class.may.clone())).collect();
        for class in &mut classes {
            inherit(class, &own);
        }
        Ok(classes)
    }

    /// Builds a class without the attributes of its superiors.
    fn alone(&self, raw: &Raw<'_>, id: u32) -> Result<ObjectClass> {
        let implied = raw.sups.is_empty() && raw.class == ClassKind::Structural;
        let sups = if implied { vec!["2.5.6.0"] } else { raw.sups.clone() };
        let name = raw.canonical();
        Ok(ObjectClass {
            id: ClassId(id),
            oid: raw.oid.clone(),
            name: name.to_owned(),
            names: raw.names.iter().map(|&name| name.to_owned()).collect(),
            sups: self.classes(raw.text, &sups)?,
            lineage: Vec::new(),
            kind: raw.class,
            obsolete: raw.obsolete,
            must: self.attributes(raw.text, &raw.must)?,
            may: self.attributes(raw.text, &raw.may)?,
            flags: flags(name, raw.builtin, self.of_2_4),
            special: SpecialClass::of(name).filter(|_| raw.builtin),
            builtin: raw.builtin,
        })
    }

    /// Builds a content rule, and returns it with its structural class.
    pub fn rule(&self, raw: &Raw<'_>) -> Result<(ClassId, ContentRule)> {
        let class = self.classes(raw.text, &[&raw.oid])?[0];
        let rule = ContentRule {
            name: raw.canonical().to_owned(),
            obsolete: raw.obsolete,
            auxiliary: self.classes(raw.text, &raw.auxiliary)?,
            must: self.attributes(raw.text, &raw.must)?,
            may: self.attributes(raw.text, &raw.may)?,
            not: self.attributes(raw.text, &raw.not)?,
        };
        Ok((class, rule))
    }
}

/// Returns the class and all its superiors, breadth first, without duplicates.
fn lineage(classes: &[ObjectClass], start: usize, text: &str) -> Result<Vec<ClassId>> {
    let mut lineage = vec![classes[start].id];
    let mut at = 0;
    while let Some(&id) = lineage.get(at) {
        let sups = &classes[id.index()].sups;
        if sups.contains(&classes[start].id) {
            return Err(invalid(text, "the class is a superior of itself"));
        }
        merge(&mut lineage, sups);
        at += 1;
    }
    Ok(lineage)
}

/// Appends the elements of `from` that `into` does not have.
fn merge<T: Copy + PartialEq>(into: &mut Vec<T>, from: &[T]) {
    for id in from {
        if !into.contains(id) {
            into.push(*id);
        }
    }
}

/// Adds the attributes of all superiors. A required attribute is removed from the allowed attributes.
fn inherit(class: &mut ObjectClass, own: &[(Vec<AttributeId>, Vec<AttributeId>)]) {
    for sup in class.lineage.iter().skip(1) {
        merge(&mut class.must, &own[sup.index()].0);
        merge(&mut class.may, &own[sup.index()].1);
    }
    class.may.retain(|id| !class.must.contains(id));
}

/// Classes with special handling in slapd (`servers/slapd/schema_prep.c`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpecialClass {
    Top,
    ExtensibleObject,
    /// Only the root DSE may have the class, and no database contains the root DSE.
    RootDse,
    /// `subschema` and `collectiveAttributeSubentry`, which only subentries may have.
    WithinSubentry,
    /// Entries of the class need the overlay dds on the database.
    DynamicObject,
    Glue,
}

/// The flag `SLAP_OC_HARDCODE` of compiled-in classes.
const BUILTIN: u32 = 0x1_0000;

/// The flags of operational classes (`SLAP_OC_OPERATIONAL`) and of hidden classes (`SLAP_OC_HIDE`).
const OPERATIONAL: u32 = 0x4000;
const HIDDEN: u32 = 0x8000;

/// The flags of object classes (`SLAP_OC_*` in `servers/slapd/slap.h`), with the bit [`BUILTIN`] left out, as set by
/// `schema_prep.c`, `syncrepl.c`, the monitor parts of the backends, and overlays.
const FLAGS: [(&str, u32); 28] = [
    ("extensibleObject", OPERATIONAL),
    ("OpenLDAProotDSE", OPERATIONAL),
    ("subschema", OPERATIONAL),
    ("alias", OPERATIONAL | 0x01),
    ("referral", OPERATIONAL | 0x02),
    ("subentry", OPERATIONAL | 0x04),
    ("dynamicObject", 0x08),
    ("collectiveAttributeSubentry", OPERATIONAL | HIDDEN | 0x10),
    ("glue", OPERATIONAL | HIDDEN | 0x20),
    ("syncProviderSubentry", OPERATIONAL | HIDDEN | 0x40),
    ("syncConsumerSubentry", OPERATIONAL | HIDDEN | 0x80),
    ("monitor", OPERATIONAL | HIDDEN),
    ("monitorServer", OPERATIONAL | HIDDEN),
    ("monitorContainer", OPERATIONAL | HIDDEN),
    ("monitorCounterObject", OPERATIONAL | HIDDEN),
    ("monitorOperation", OPERATIONAL | HIDDEN),
    ("monitorConnection", OPERATIONAL | HIDDEN),
    ("managedObject", OPERATIONAL | HIDDEN),
    ("monitoredObject", OPERATIONAL | HIDDEN),
    ("olmSyncReplInstance", HIDDEN),
    ("olmMDBDatabase", HIDDEN),
    ("olmLDAPDatabase", HIDDEN),
    ("olmLDAPConnection", HIDDEN),
    ("olmBDBDatabase", HIDDEN),
    ("olmPCache", HIDDEN),
    ("errAbsObject", HIDDEN),
    ("errObject", HIDDEN),
    ("errAuxObject", HIDDEN),
];

/// Returns the flag word of a class. slapd 2.4 hides the classes of slapo-accesslog, whose names begin with "audit".
fn flags(name: &str, builtin: bool, of_2_4: bool) -> u32 {
    let logged = if of_2_4 && name.starts_with("audit") { HIDDEN } else { 0 };
    let special = || FLAGS.iter().find(|row| row.0 == name).map_or(logged, |row| row.1);
    if builtin { BUILTIN | special() } else { 0 }
}

impl SpecialClass {
    /// Returns the special handling of the compiled-in class with this name, if it has any.
    fn of(name: &str) -> Option<Self> {
        match name {
            "top" => Some(Self::Top),
            "extensibleObject" => Some(Self::ExtensibleObject),
            "OpenLDAProotDSE" => Some(Self::RootDse),
            "subschema" | "collectiveAttributeSubentry" => Some(Self::WithinSubentry),
            "dynamicObject" => Some(Self::DynamicObject),
            "glue" => Some(Self::Glue),
            _ => None,
        }
    }
}
