//! The configured indexes, and which of them index the values of an attribute.
//!
//! An attribute is also indexed by the indexes of its super-types, with keys that follow from the super-type's name,
//! syntax and rules. An index of `type;options` shares the table of the plain type
//! (`servers/slapd/back-mdb/index.c`).

use std::ffi::c_char;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use extsort::{KeySize, Postings};
use schema::{AttributeId, Description, RuleKind, Schema};
use values::keys::{Seed, Width};

use crate::indexer::{Equality, Indexer};
use crate::settings::Method;
use crate::{Code, Error, Result, Settings};

/// The longest integer key that this crate can compute, in bytes.
pub const LONGEST_INTEGER: usize = 8;

/// One index table.
#[derive(Debug)]
pub struct Table {
    /// The name of the attribute type.
    pub name: String,
    /// Some keys do not have four bytes.
    pub long: bool,
}

#[derive(Debug)]
struct Definition {
    attribute: AttributeId,
    /// Canonical description: the type's name, then any options.
    text: String,
    methods: Vec<Method>,
    table: usize,
}

#[derive(Debug)]
pub struct Indexes {
    pub tables: Vec<Table>,
    definitions: Vec<Definition>,
}

impl Indexes {
    /// Reads the configured indexes. If this crate cannot compute the keys of an index, fails with the index's name.
    pub fn read(schema: &Schema, settings: &Settings) -> Result<Self> {
        let mut read = Self { tables: Vec::new(), definitions: Vec::new() };
        for (name, methods) in &settings.indexes {
            read.add(schema, settings, name, methods)?;
        }
        Ok(read)
    }

    fn add(&mut self, schema: &Schema, settings: &Settings, name: &str, methods: &[Method]) -> Result<()> {
        let refused = |reason: &str| Error::new(Code::Unproven, format!("index {name}: {reason}"));
        let described = schema.describe(name.as_bytes()).map_err(|refusal| refused(&refusal.0))?;
        let kind = schema.get(described.attribute);
        if let Some(rule) = kind.unsupported_rule() {
            return Err(refused(rule));
        }
        for method in methods {
            let rule = match method {
                Method::Presence | Method::Approx => continue,
                Method::Equality => &kind.equality,
                Method::Substrings => &kind.substrings,
            };
            match rule {
                None => return Err(refused("the attribute has no matching rule for it")),
                Some(rule) if rule.kind == RuleKind::Integer && c_char::MIN == 0 => {
                    return Err(refused("keys of integers are not known on this kind of processor"));
                }
                Some(rule) if rule.kind == RuleKind::Unindexed => {
                    return Err(refused(&format!("slapd makes no keys by {}", rule.name)));
                }
                Some(_) => {}
            }
        }
        let long = is_long(schema, settings, described.attribute, methods);
        let table = self.table(&kind.name, long);
        self.definitions.push(Definition {
            attribute: described.attribute,
            text: described.text,
            methods: methods.to_vec(),
            table,
        });
        Ok(())
    }

    fn table(&mut self, name: &str, long: bool) -> usize {
        let table = self.tables.iter().position(|table| table.name == name).unwrap_or_else(|| {
            self.tables.push(Table { name: name.to_owned(), long: false });
            self.tables.len() - 1
        });
        self.tables[table].long |= long;
        table
    }

    /// Creates the sorter for the keys of all indexes. `memory`: in bytes.
    pub fn postings(&self, memory: usize, scratch: &Path, stop: &Arc<AtomicBool>) -> Postings {
        let size = |table: &Table| if table.long { KeySize::UpToEight } else { KeySize::Four };
        let sizes: Vec<KeySize> = self.tables.iter().map(size).collect();
        Postings::new(&sizes, memory, scratch, stop)
    }

    /// Returns the indexers of a description, those of its super-types first.
    pub fn indexers(&self, schema: &Schema, settings: &Settings, described: &Description) -> Vec<Indexer> {
        let options = described.text.find(';').map_or("", |at| &described.text[at..]);
        let mut indexers = Vec::new();
        for &ancestor in &schema.get(described.attribute).chain {
            let plain = &schema.get(ancestor).name;
            for text in [plain.clone(), format!("{plain}{options}")] {
                let mut definitions = self.definitions.iter();
                let own = definitions.find(|own| own.attribute == ancestor && own.text == text);
                indexers.extend(own.map(|own| self.indexer(schema, settings, own)));
                if options.is_empty() {
                    break;
                }
            }
        }
        indexers
    }

    fn indexer(&self, schema: &Schema, settings: &Settings, definition: &Definition) -> Indexer {
        let kind = schema.get(definition.attribute);
        let width = if settings.wide_hash { Width::Eight } else { Width::Four };
        let seed = |pre: &str, rule: &str| Seed::new(width, &definition.text, pre, &kind.syntax_oid, rule);
        let equality = kind.equality.as_ref().filter(|_| definition.methods.contains(&Method::Equality));
        let substrings = kind.substrings.as_ref().filter(|_| definition.methods.contains(&Method::Substrings));
        Indexer {
            table: definition.table,
            long: self.tables[definition.table].long,
            wide: settings.wide_hash,
            presence: definition.methods.contains(&Method::Presence),
            equality: equality.map(|rule| match rule.kind {
                RuleKind::Integer => Equality::Integer(settings.integer_length),
                RuleKind::Time if settings.of_2_4 => Equality::OldTime,
                RuleKind::Time => Equality::Time,
                RuleKind::ObjectClass => Equality::ObjectClass(seed("", &rule.oid)),
                RuleKind::NameUid => Equality::NameUid(seed("", &rule.oid)),
                _ => Equality::Hash(seed("", &rule.oid)),
            }),
            approx: definition.methods.contains(&Method::Approx),
            substrings: substrings.map(|rule| ["^", "*", "$"].map(|pre| seed(pre, &rule.oid))),
        }
    }
}

/// Returns true if some keys of these methods do not have four bytes.
fn is_long(schema: &Schema, settings: &Settings, attribute: AttributeId, methods: &[Method]) -> bool {
    let equality = || schema.get(attribute).equality.as_ref().map(|rule| rule.kind);
    settings.wide_hash
        || methods.contains(&Method::Approx)
        || methods.contains(&Method::Equality)
            && match equality() {
                Some(RuleKind::Time) => true,
                Some(RuleKind::Integer) => settings.integer_length != 4,
                _ => false,
            }
}
