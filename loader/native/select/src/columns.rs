//! Resolves each spelling of an attribute description in the LDIF, and decides whether a selection keeps its values.

use rustc_hash::FxHashMap;
use schema::{Description, Schema};

use crate::attributes::is_of;
use crate::filter::Filter;
use crate::selection::{OWN, Selection};

/// OID of the syntax DN (RFC 4517, 3.3.9).
const DN_SYNTAX: &str = "1.3.6.1.4.1.1466.115.121.1.12";

/// An attribute description, and how the selection uses its values.
#[derive(Debug, Default)]
pub struct AttributeDescription {
    pub description: Option<Description>,
    pub keep: bool,
    /// Whether `suffixmassage` rewrites the values, because they are DNs.
    pub dn: bool,
    /// Indexes in [`Filter::descriptions`] of the descriptions to which this description belongs, as [`is_of`] decides.
    pub asked: Vec<usize>,
    pub part: SpecialAttribute,
}

/// Attributes that [`stage`](crate::stage) evaluates.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum SpecialAttribute {
    Class,
    Csn,
    /// Index of the attribute in `OWN`.
    Own(usize),
    #[default]
    Other,
}

/// All attribute descriptions that have occurred, indexed by their numbers.
pub struct AttributeDescriptions<'a> {
    selection: &'a Selection,
    schema: &'a Schema,
    all: Vec<AttributeDescription>,
    spelled: FxHashMap<Box<[u8]>, usize>,
}

impl<'a> AttributeDescriptions<'a> {
    pub fn new(selection: &'a Selection, schema: &'a Schema) -> Self {
        Self { selection, schema, all: Vec::new(), spelled: FxHashMap::default() }
    }

    pub fn get(&self, number: usize) -> &AttributeDescription {
        &self.all[number]
    }

    pub fn number(&mut self, spelling: &[u8]) -> usize {
        if let Some(&known) = self.spelled.get(spelling) {
            return known;
        }
        let new = self.resolve(spelling);
        // Two spellings of the same description have the same number.
        let same = |other: &AttributeDescription| new.description.is_some() && other.description == new.description;
        let number = self.all.iter().position(same).unwrap_or_else(|| {
            self.all.push(new);
            self.all.len() - 1
        });
        self.spelled.insert(spelling.into(), number);
        number
    }

    fn resolve(&self, spelling: &[u8]) -> AttributeDescription {
        let attributes = &self.selection.attributes;
        let Ok(description) = self.schema.describe(spelling) else {
            // An attribute that is not in the schema counts as a user attribute.
            return AttributeDescription { keep: attributes.all_user, ..AttributeDescription::default() };
        };
        let kind = self.schema.get(description.attribute);
        let filter = self.selection.filter.as_ref().map_or(&[][..], Filter::descriptions);
        let matching = filter.iter().enumerate().filter(|(_, one)| is_of(&description, kind, one));
        let part = match kind.name.as_str() {
            "objectClass" => SpecialAttribute::Class,
            "entryCSN" => SpecialAttribute::Csn,
            name => OWN.iter().position(|own| *own == name).map_or(SpecialAttribute::Other, SpecialAttribute::Own),
        };
        AttributeDescription {
            keep: attributes.keep(&description, self.schema),
            dn: kind.syntax_oid == DN_SYNTAX && self.selection.suffixes.has_suffixmassage(),
            asked: matching.map(|(number, _)| number).collect(),
            part,
            description: Some(description),
        }
    }
}
