//! A schema with all references resolved.

use crate::attribute::{self, AttributeId, AttributeType};
use crate::class::{ClassId, ContentRule, ObjectClass, Sources};
use crate::names::Names;
use crate::read::{Definition, Kind, Macros, Raw, Settings};
use crate::{InvalidValue, Result, Rule};

/// The attribute types, object classes and content rules of a slapd.
#[derive(Debug, Clone)]
pub struct Schema {
    attributes: Vec<AttributeType>,
    attribute_names: Names,
    classes: Vec<ObjectClass>,
    class_names: Names,
    rules: Vec<(ClassId, ContentRule)>,
    settings: Settings,
}

/// An attribute type that is compiled into slapd 2.5 and later (`servers/slapd/schema_prep.c`).
const SINCE_2_5: &str = "pwdLastSuccess";

/// Maps the names and OIDs of the definitions to their numbers. A duplicate is an error.
fn names(definitions: &[Raw<'_>]) -> Result<Names> {
    let mut names = Names::default();
    for (raw, id) in definitions.iter().zip(0..) {
        for name in std::iter::once(&raw.oid.as_str()).chain(&raw.names) {
            if !names.insert(name, id) {
                return Err(invalid(raw.text, &format!("\"{name}\" is defined twice")));
            }
        }
    }
    Ok(names)
}

impl Schema {
    /// Reads the definitions of a configuration, in any order.
    pub fn read(definitions: &[Definition], settings: Settings) -> Result<Self> {
        let macros = Macros::read(definitions)?;
        let read = |kind| -> Result<Vec<Raw<'_>>> {
            let wanted = definitions.iter().filter(|definition| definition.kind == kind);
            wanted.map(|definition| Raw::read(definition, &macros)).collect()
        };
        let (types, classes) = (read(Kind::AttributeType)?, read(Kind::ObjectClass)?);
        let (attribute_names, class_names) = (names(&types)?, names(&classes)?);
        let attributes = attribute::resolve(&types, &read(Kind::Syntax)?, &attribute_names, &settings)?;
        let of_2_4 = attribute_names.find(SINCE_2_5.as_bytes()).is_none_or(|id| !attributes[id as usize].builtin);
        let sources = Sources { attribute_names: &attribute_names, class_names: &class_names, of_2_4 };
        let classes = sources.resolve(&classes)?;
        let rules = read(Kind::ContentRule)?;
        let rules = rules.iter().map(|rule| sources.rule(rule)).collect::<Result<_, _>>()?;
        let settings = tidy(settings);
        Ok(Self { attributes, attribute_names, classes, class_names, rules, settings })
    }

    /// Returns the attribute type with this name or OID, without regard to case. `name` must not have options.
    #[inline]
    pub fn attribute(&self, name: &[u8]) -> Option<AttributeId> {
        self.attribute_names.find(name).map(AttributeId)
    }

    #[inline]
    pub fn get(&self, id: AttributeId) -> &AttributeType {
        &self.attributes[id.index()]
    }

    /// Returns all attribute types in the order of their numbers.
    pub fn attributes(&self) -> std::slice::Iter<'_, AttributeType> {
        self.attributes.iter()
    }

    /// Returns the object class with this name or OID, without regard to case.
    #[inline]
    pub fn class(&self, name: &[u8]) -> Option<ClassId> {
        self.class_names.find(name).map(ClassId)
    }

    #[inline]
    pub fn object_class(&self, id: ClassId) -> &ObjectClass {
        &self.classes[id.index()]
    }

    pub fn object_classes(&self) -> std::slice::Iter<'_, ObjectClass> {
        self.classes.iter()
    }

    /// Returns two texts to compare with another schema's: how values are stored, and what else decides index keys.
    pub fn attribute_meaning(&self, kind: &AttributeType) -> (String, String) {
        let rule = |rule: &Option<Rule>| rule.as_ref().map_or("none", |rule| &*rule.name).to_owned();
        let above: Vec<&str> = kind.chain.iter().map(|id| self.get(*id).name.as_str()).collect();
        let ordered = if kind.ordered.is_some() { " X-ORDERED" } else { "" };
        let stored = format!("SYNTAX {} EQUALITY {}{ordered}", kind.syntax_oid, rule(&kind.equality));
        (stored, format!("SUBSTR {} SUP {}", rule(&kind.substrings), above.join(" ")))
    }

    /// Returns such texts for an object class. Superiors decide index keys: objectClass is indexed by their names, too.
    pub fn class_meaning(&self, class: &ObjectClass) -> (String, String) {
        let mut above: Vec<&str> = class.lineage.iter().map(|id| self.object_class(*id).name.as_str()).collect();
        above.sort_unstable();
        (String::new(), format!("SUP {}", above.join(" ")))
    }

    /// Returns the content rule for entries with this structural class, if there is one.
    pub fn content_rule(&self, class: ClassId) -> Option<&ContentRule> {
        self.rules.iter().find(|rule| rule.0 == class).map(|rule| &rule.1)
    }

    pub(crate) fn options(&self) -> &[String] {
        &self.settings.attribute_options
    }

    pub(crate) fn dynamic_objects(&self) -> bool {
        self.settings.dynamic_objects
    }
}

fn tidy(mut settings: Settings) -> Settings {
    let words = settings.attribute_options.iter().flat_map(|value| value.split_ascii_whitespace());
    settings.attribute_options = words.map(str::to_ascii_lowercase).collect();
    settings
}

/// Returns the error that the definition `text` is malformed, or refers to an undefined name.
pub fn invalid(text: &str, reason: &str) -> InvalidValue {
    let start: String = text.chars().take(120).collect();
    let dots = if start.len() < text.len() { "..." } else { "" };
    InvalidValue(format!("schema definition \"{start}{dots}\": {reason}").into())
}
