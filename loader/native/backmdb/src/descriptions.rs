//! Attribute descriptions with their settings: where their values are stored, and their index keys.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use common::WithCode;
use rustc_hash::FxHashMap;
use schema::{AttributeId, Description, Schema, ValueForm};
use values::InvalidValue;

use crate::indexer::Indexer;
use crate::indexes::Indexes;
use crate::{Code, Settings, lock};

/// slapd's limit for attribute numbers (`servers/slapd/back-mdb/attr.c`). id2e would have room for 30 bits.
const MOST: u32 = 65_535;

/// Attributes that slapd computes when they are requested (`SLAP_AT_DYNAMIC` in `servers/slapd/schema_prep.c`). slapadd
/// 2.6.11 and later do not store them; this crate leaves them out only for slapd 2.7.
pub const COMPUTED: [&str; 3] = ["hasSubordinates", "subschemaSubentry", "entryDN"];

/// An attribute description with its settings in this database.
pub struct AttributeDescription {
    pub attribute: AttributeId,
    /// Canonical description: the type's name, then its options.
    pub text: String,
    pub form: ValueForm,
    /// One of [`COMPUTED`].
    pub computed: bool,
    /// `sortvals`: the values are sorted by their equality rule.
    pub sorted: bool,
    /// `multival`: the values are stored in id2v if an entry has more of them than this.
    pub apart_above: u32,
    pub order: values::Order,
    pub indexers: Vec<Indexer>,
    /// The attribute's equality rule or syntax, if this crate does not know how slapd stores the values.
    pub unproven: Option<String>,
    /// Number of values that violate their syntax but were accepted.
    misfits: AtomicU64,
    /// The number in ad2i; 0 until the first entry with this attribute is stored.
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

/// The number of an attribute's values that violate its syntax.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidValues {
    /// The description, with its options.
    pub attribute: String,
    /// The syntax's OID, dotted.
    pub syntax: String,
    pub count: u64,
}

/// The columns that were used so far, shared by all workers. Each worker caches the columns that it looks up.
pub struct AttributeDescriptions<'a> {
    schema: &'a Schema,
    settings: &'a Settings,
    indexes: &'a Indexes,
    registered: Mutex<Registered>,
}

#[derive(Default)]
struct Registered {
    columns: FxHashMap<String, Arc<AttributeDescription>>,
    /// Descriptions in the order of their numbers, from 1.
    numbered: Vec<String>,
}

impl<'a> AttributeDescriptions<'a> {
    pub fn new(schema: &'a Schema, settings: &'a Settings, indexes: &'a Indexes) -> Self {
        Self { schema, settings, indexes, registered: Mutex::default() }
    }

    /// Returns the column of a description. `spelled`: the description as LDIF spells it.
    pub fn column(&self, spelled: &[u8]) -> Result<Arc<AttributeDescription>, InvalidValue> {
        let description = self.schema.describe_stored(spelled)?;
        let mut registered = lock(&self.registered);
        if let Some(column) = registered.columns.get(&description.text) {
            return Ok(Arc::clone(column));
        }
        let column = Arc::new(self.new_column(&description));
        registered.columns.insert(description.text, Arc::clone(&column));
        Ok(column)
    }

    fn new_column(&self, description: &Description) -> AttributeDescription {
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

    /// Returns the last `multival` limit that is configured for exactly this description, or else the last default.
    fn apart_above(&self, text: &str) -> u32 {
        if !self.settings.has_id2v {
            return u32::MAX;
        }
        let mut limits = self.settings.apart_above.iter().rev();
        let default = limits.clone().find(|(name, _)| name == "default");
        let own = limits.find(|(name, _)| self.schema.describe(name.as_bytes()).is_ok_and(|own| own.text == text));
        own.or(default).map_or(u32::MAX, |(_, limit)| *limit)
    }

    /// Returns the column's number, assigning a new one if needed. The caller ensures the order of numbers.
    pub fn assign_number(&self, column: &AttributeDescription) -> Result<u32, InvalidValue> {
        let mut registered = lock(&self.registered);
        if let Some(number) = column.number() {
            return Ok(number);
        }
        let number = u32::try_from(registered.numbered.len() + 1).unwrap_or(u32::MAX);
        if number > MOST {
            return Err(InvalidValue(format!("more than {MOST} attribute descriptions").into()));
        }
        registered.numbered.push(column.text.clone());
        column.number.store(number, Relaxed);
        Ok(number)
    }

    /// Returns the number of the description `name` in ad2i, assigning a new one if needed.
    pub fn number_of(&self, name: &[u8]) -> crate::Result<u32> {
        self.column(name).and_then(|column| self.assign_number(&column)).with_code(Code::Schema)
    }

    /// Returns the attributes with values that violate their syntax, by name.
    pub fn invalid_values(&self) -> Vec<InvalidValues> {
        let counted = |column: &Arc<AttributeDescription>| InvalidValues {
            attribute: column.text.clone(),
            syntax: self.schema.get(column.attribute).syntax_oid.clone(),
            count: column.misfits.load(Relaxed),
        };
        let registered = lock(&self.registered);
        let counts = registered.columns.values().map(counted);
        let mut all: Vec<_> = counts.filter(|values| values.count > 0).collect();
        all.sort_by(|left, right| left.attribute.cmp(&right.attribute));
        all
    }

    /// Returns the descriptions in the order of their numbers, from 1.
    pub fn numbered(&self) -> Vec<String> {
        lock(&self.registered).numbered.clone()
    }
}
