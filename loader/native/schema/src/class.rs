//! Object classes and DIT content rules, with what they inherit.

use crate::names::Names;
use crate::read::{RawClass, RawRule};
use crate::special::{self, SpecialClass};
use crate::{AttributeId, Problem};

/// Number of an object class in its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub(crate) u32);

impl ClassId {
    /// From 0, without gaps.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// RFC 4512 section 2.4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClassKind {
    Abstract,
    #[default]
    Structural,
    Auxiliary,
}

/// An object class, complete with what it has from its superiors.
#[derive(Debug, Clone)]
pub struct ObjectClass {
    pub id: ClassId,
    pub oid: String,
    /// First NAME as the schema spells it; the OID if there is none.
    pub name: String,
    pub names: Vec<String>,
    /// Direct superiors.
    pub sups: Vec<ClassId>,
    /// Itself and all superiors, direct or not.
    pub lineage: Vec<ClassId>,
    pub kind: ClassKind,
    pub obsolete: bool,
    /// Required attributes, inherited ones too.
    pub must: Vec<AttributeId>,
    /// Allowed attributes, inherited ones too, without those required.
    pub may: Vec<AttributeId>,
    /// slapd's flag word (`SLAP_OC_*` in `servers/slapd/slap.h`), stored OR-ed in each entry.
    pub flags: u32,
    pub(crate) special: Option<SpecialClass>,
    /// Compiled into slapd or one of its modules.
    pub builtin: bool,
}

/// A DIT content rule (RFC 4512 section 4.1.6).
#[derive(Debug, Clone)]
pub struct ContentRule {
    /// First NAME, or the OID of its structural class.
    pub name: String,
    pub obsolete: bool,
    pub auxiliary: Vec<ClassId>,
    pub must: Vec<AttributeId>,
    pub may: Vec<AttributeId>,
    pub not: Vec<AttributeId>,
}

impl ObjectClass {
    /// This class is `other` or one of its subclasses.
    pub fn is_a(&self, other: ClassId) -> bool {
        self.lineage.contains(&other)
    }
}

/// What classes are looked up in.
pub struct Sources<'a> {
    pub attribute_names: &'a Names,
    pub class_names: &'a Names,
    /// The schema is that of slapd 2.4.
    pub of_2_4: bool,
}

impl Sources<'_> {
    fn attributes(&self, text: &str, names: &[&str]) -> Result<Vec<AttributeId>, Problem> {
        let mut found: Vec<AttributeId> = Vec::new();
        for name in names {
            let missing = || Problem::of(text, &format!("unknown attribute type \"{name}\""));
            let id =
                self.attribute_names.find(name.as_bytes()).map(AttributeId).ok_or_else(missing)?;
            if !found.contains(&id) {
                found.push(id);
            }
        }
        Ok(found)
    }

    fn classes(&self, text: &str, names: &[&str]) -> Result<Vec<ClassId>, Problem> {
        let find = |name: &&str| {
            let missing = || Problem::of(text, &format!("unknown object class \"{name}\""));
            self.class_names.find(name.as_bytes()).map(ClassId).ok_or_else(missing)
        };
        names.iter().map(find).collect()
    }

    /// Builds all classes; a superior may stand behind its subclass.
    pub fn resolve(&self, raws: &[RawClass<'_>]) -> Result<Vec<ObjectClass>, Problem> {
        let mut classes = raws
            .iter()
            .zip(0..)
            .map(|(raw, id)| self.alone(raw, id))
            .collect::<Result<Vec<_>, _>>()?;
        for index in 0..classes.len() {
            let lineage = lineage(&classes, index, raws[index].text)?;
            classes[index].lineage = lineage;
        }
        let own: Vec<_> =
            classes.iter().map(|class| (class.must.clone(), class.may.clone())).collect();
        for class in &mut classes {
            inherit(class, &own);
        }
        Ok(classes)
    }

    /// The class without what it inherits.
    fn alone(&self, raw: &RawClass<'_>, id: u32) -> Result<ObjectClass, Problem> {
        let implied = raw.sups.is_empty() && raw.kind == ClassKind::Structural;
        let sups = if implied { vec!["2.5.6.0"] } else { raw.sups.clone() };
        let name = raw.names.first().copied().unwrap_or(&raw.oid);
        Ok(ObjectClass {
            id: ClassId(id),
            oid: raw.oid.clone(),
            name: name.to_owned(),
            names: raw.names.iter().map(|&name| name.to_owned()).collect(),
            sups: self.classes(raw.text, &sups)?,
            lineage: Vec::new(),
            kind: raw.kind,
            obsolete: raw.obsolete,
            must: self.attributes(raw.text, &raw.must)?,
            may: self.attributes(raw.text, &raw.may)?,
            flags: special::flags(name, raw.builtin, self.of_2_4),
            special: SpecialClass::of(name).filter(|_| raw.builtin),
            builtin: raw.builtin,
        })
    }

    /// A content rule, and the OID of the structural class it is for.
    pub fn rule(&self, raw: &RawRule<'_>) -> Result<(ClassId, ContentRule), Problem> {
        let class = self.classes(raw.text, &[&raw.oid])?[0];
        let rule = ContentRule {
            name: raw.names.first().map_or_else(|| raw.oid.clone(), |&name| name.to_owned()),
            obsolete: raw.obsolete,
            auxiliary: self.classes(raw.text, &raw.auxiliary)?,
            must: self.attributes(raw.text, &raw.must)?,
            may: self.attributes(raw.text, &raw.may)?,
            not: self.attributes(raw.text, &raw.not)?,
        };
        Ok((class, rule))
    }
}

/// The class and its superiors in the order in which they are met, each once.
fn lineage(classes: &[ObjectClass], start: usize, text: &str) -> Result<Vec<ClassId>, Problem> {
    let mut met = vec![classes[start].id];
    let mut at = 0;
    while let Some(&id) = met.get(at) {
        for &sup in &classes[id.index()].sups {
            if sup == classes[start].id {
                return Err(Problem::of(text, "the class is a superior of itself"));
            }
            if !met.contains(&sup) {
                met.push(sup);
            }
        }
        at += 1;
    }
    Ok(met)
}

/// Adds the attributes of all superiors; what is required is not listed as allowed again.
fn inherit(class: &mut ObjectClass, own: &[(Vec<AttributeId>, Vec<AttributeId>)]) {
    let merge = |into: &mut Vec<AttributeId>, from: &[AttributeId]| {
        for &id in from {
            if !into.contains(&id) {
                into.push(id);
            }
        }
    };
    for sup in class.lineage.iter().skip(1) {
        merge(&mut class.must, &own[sup.index()].0);
        merge(&mut class.may, &own[sup.index()].1);
    }
    class.may.retain(|id| !class.must.contains(id));
}
