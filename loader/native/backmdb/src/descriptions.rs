//! The settings for each attribute description: where its values are stored, and its index keys.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;
use schema::{AttributeId, Description, Schema, ValueForm};
use values::InvalidValue;

use crate::indexer::Indexer;
use crate::indexes::Indexes;
use crate::{Settings, lock};

/// Limit of slapd's attribute numbers (`servers/slapd/back-mdb/attr.c`), although id2e has 30 bits for them.
const MOST: u32 = 65_535;

/// Attributes that slapd computes when they are requested (`SLAP_AT_DYNAMIC` in `servers/slapd/schema_prep.c`); slapadd
/// 2.6.11 and later do not store them.
pub const COMPUTED: [&str; 3] = ["hasSubordinates", "subschemaSubentry", "entryDN"];

/// An attribute description with its settings in this database.
pub struct AttributeDescription {
    pub attribute: AttributeId,
    /// Canonical description: the type's name, then its options.
    pub text: String,
    pub form: ValueForm,
    /// One of [`COMPUTED`].
    pub computed: bool,
    /// The values are sorted by their equality rule.
    pub sorted: bool,
    /// Attributes with more values than this are stored in id2v.
    pub apart_above: u32,
    pub order: values::Order,
    pub indexers: Vec<Indexer>,
    /// The equality rule or syntax, if it is unknown how slapd stores its values.
    pub unproven: Option<String>,
    /// Number of values that violate their syntax but were accepted.
    misfits: AtomicU64,
    /// Its number in ad2i; 0 until the first entry that has it is stored.
    number: AtomicU32,
}

impl AttributeDescription {
    pub fn number(&self) -> Option<u32> {
        Some(self.number.load(Relaxed)).filter(|number| *number > 0)
    }

    pub fn count_invalid_value(&self) {
        self.misfits.fetch_add(1, Relaxed);
    }
}

/// Number of values of one attribute that violate its syntax.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidValues {
    /// The description, with its options.
    pub attribute: String,
    /// The syntax's OID, dotted.
    pub syntax: String,
    pub count: u64,
}

/// All columns used so far; workers share it and cache what they look up.
pub struct AttributeDescriptions<'a> {
    schema: &'a Schema,
    settings: &'a Settings,
    indexes: &'a Indexes,
    known: Mutex<Registered>,
}

#[derive(Default)]
struct Registered {
    columns: FxHashMap<String, Arc<AttributeDescription>>,
    /// Descriptions in the order of their numbers, from 1.
    numbered: Vec<String>,
}

impl<'a> AttributeDescriptions<'a> {
    pub fn new(schema: &'a Schema, settings: &'a Settings, indexes: &'a Indexes) -> Self {
        Self { schema, settings, indexes, known: Mutex::default() }
    }

    /// Returns the column of a description as LDIF spells it.
    pub fn column(&self, spelled: &[u8]) -> Result<Arc<AttributeDescription>, InvalidValue> {
        let description = self.schema.describe_stored(spelled)?;
        let mut known = lock(&self.known);
        if let Some(column) = known.columns.get(&description.text) {
            return Ok(Arc::clone(column));
        }
        let column = Arc::new(self.make(&description));
        known.columns.insert(description.text, Arc::clone(&column));
        Ok(column)
    }

    fn make(&self, description: &Description) -> AttributeDescription {
        let kind = self.schema.get(description.attribute);
        AttributeDescription {
            attribute: description.attribute,
            text: description.text.clone(),
            form: self.schema.value_form(description.attribute),
            computed: COMPUTED.contains(&kind.name.as_str()),
            sorted: self.is_sorted(description.attribute),
            apart_above: self.apart_above(&description.text),
            order: kind.order,
            indexers: self.indexes.indexers(self.schema, self.settings, description),
            unproven: kind.unsupported_rule().map(str::to_owned),
            misfits: AtomicU64::new(0),
            number: AtomicU32::new(0),
        }
    }

    fn is_sorted(&self, attribute: AttributeId) -> bool {
        let mut sorted = self.settings.sorted.iter();
        sorted.any(|name| self.schema.attribute(name.as_bytes()) == Some(attribute))
    }

    /// Returns the limit for exactly this description, or else the default.
    fn apart_above(&self, text: &str) -> u32 {
        let set = |wanted: &str| {
            self.settings.apart_above.iter().rev().find(|(name, _)| name == wanted).map(|(_, above)| *above)
        };
        let canonical = |(name, above): &(String, u32)| {
            let found = self.schema.describe(name.as_bytes()).ok()?;
            (found.text == text).then_some(*above)
        };
        let own = self.settings.apart_above.iter().rev().find_map(canonical);
        if self.settings.has_id2v { own.or_else(|| set("default")).unwrap_or(u32::MAX) } else { u32::MAX }
    }

    /// Returns the column's number, assigning one if needed. The caller ensures the order.
    pub fn assign_number(&self, column: &AttributeDescription) -> Result<u32, InvalidValue> {
        let mut known = lock(&self.known);
        if let Some(number) = column.number() {
            return Ok(number);
        }
        let number = u32::try_from(known.numbered.len() + 1).unwrap_or(u32::MAX);
        if number > MOST {
            return Err(InvalidValue(format!("more than {MOST} attribute descriptions").into()));
        }
        known.numbered.push(column.text.clone());
        column.number.store(number, Relaxed);
        Ok(number)
    }

    /// Returns the counts of values that violate their syntax.
    pub fn invalid_values(&self) -> Vec<InvalidValues> {
        let counted = |column: &Arc<AttributeDescription>| InvalidValues {
            attribute: column.text.clone(),
            syntax: self.schema.get(column.attribute).syntax_oid.clone(),
            count: column.misfits.load(Relaxed),
        };
        let known = lock(&self.known);
        let mut all: Vec<_> = known.columns.values().map(counted).filter(|one| one.count > 0).collect();
        all.sort_by(|one, other| one.attribute.cmp(&other.attribute));
        all
    }

    /// Returns the descriptions in the order of their numbers, from 1.
    pub fn numbered(&self) -> Vec<String> {
        lock(&self.known).numbered.clone()
    }
}
