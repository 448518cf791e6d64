//! The findings of an audit by kind. All findings are counted, and the first findings of each kind are reported.

use std::collections::BTreeMap;
use std::fmt;

common::named!(
    /// The kinds of problems, in the order of the audit's levels.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Kind {
        Head = "meta.head",
        Table = "meta.table",
        Count = "meta.count",
        Page = "pages.damaged",
        LostPages = "pages.lost",
        FreePages = "pages.free",
        Description = "tree.description",
        Entry = "tree.entry",
        Scattered = "tree.scattered",
        Hole = "tree.hole",
        Values = "tree.values",
        Node = "tree.node",
        NoNode = "tree.no_node",
        NoEntry = "tree.no_entry",
        Place = "tree.place",
        Sibling = "tree.sibling",
        Subtree = "tree.subtree",
        Schema = "indexes.schema",
        Name = "indexes.name",
        Naming = "indexes.naming",
        Flags = "indexes.flags",
        Normal = "indexes.normal_form",
        /// Normal forms are missing.
        NoNormal = "indexes.no_normal_form",
        /// A value for which slapd generates no index key.
        NoKey = "indexes.no_key",
        /// Not a problem: only a note is reported.
        OwnForm = "indexes.own_form",
        Order = "indexes.order",
        /// id2e has values that `multival` would put into id2v.
        KeptTogether = "indexes.multival",
        /// Equal values of an attribute that slapd sorts on reading.
        Twice = "indexes.sortvals",
        Index = "indexes.table",
        Posting = "indexes.damaged",
        Missing = "indexes.missing",
        TooMuch = "indexes.too_much",
        TooLong = "indexes.too_long",
    }
);

/// A problem and its location, as far as the location is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Finding {
    pub message: String,
    /// Entry ID.
    pub id: Option<u64>,
    pub dn: Option<String>,
    /// An attribute description, or the attribute of an index.
    pub attribute: Option<String>,
    pub table: Option<String>,
    pub page: Option<u64>,
}

impl Finding {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    pub fn of_entry(id: u64, message: impl Into<String>) -> Self {
        Self { id: Some(id), ..Self::new(message) }
    }

    #[must_use]
    pub fn of_table(self, table: &str) -> Self {
        Self { table: Some(table.to_owned()), ..self }
    }

    #[must_use]
    pub fn of_attribute(self, attribute: &str) -> Self {
        Self { attribute: Some(attribute.to_owned()), ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut name = |what: &str, text: Option<&dyn fmt::Display>| match text {
            Some(text) => write!(out, "{what} {text}: "),
            None => Ok(()),
        };
        name("table", self.table.as_ref().map(|text| text as _))?;
        name("page", self.page.as_ref().map(|page| page as _))?;
        name("entry", self.id.as_ref().map(|id| id as _))?;
        name("attribute", self.attribute.as_ref().map(|text| text as _))?;
        out.write_str(&self.message)
    }
}

impl From<&lmdbfile::Error> for Finding {
    fn from(error: &lmdbfile::Error) -> Self {
        Self { page: error.page, table: error.table.clone(), ..Self::new(&error.message) }
    }
}

/// All problems of one kind.
#[derive(Debug, Clone, Default)]
pub struct Problem {
    pub count: u64,
    /// The first findings, which are reported.
    pub told: Vec<Finding>,
}

pub struct Findings {
    /// Maximum number of reported findings of each kind.
    pub limit: usize,
    pub problems: BTreeMap<Kind, Problem>,
    /// Attribute -> number of entries in which an overlay stored the attribute's values as their own normal forms.
    pub own_forms: BTreeMap<String, u64>,
}

impl Findings {
    pub const fn new(limit: usize) -> Self {
        Self { limit, problems: BTreeMap::new(), own_forms: BTreeMap::new() }
    }

    pub fn add(&mut self, kind: Kind, finding: impl FnOnce() -> Finding) {
        if kind == Kind::OwnForm {
            let attribute = finding().attribute.unwrap_or_default();
            *self.own_forms.entry(attribute).or_default() += 1;
            return;
        }
        let problem = self.problems.entry(kind).or_default();
        problem.count += 1;
        if problem.told.len() < self.limit {
            problem.told.push(finding());
        }
    }

    /// Appends the findings of a later range or index.
    pub fn absorb(&mut self, other: Self) {
        for (attribute, count) in other.own_forms {
            *self.own_forms.entry(attribute).or_default() += count;
        }
        for (kind, found) in other.problems {
            let problem = self.problems.entry(kind).or_default();
            problem.count += found.count;
            let room = self.limit.saturating_sub(problem.told.len());
            problem.told.extend(found.told.into_iter().take(room));
        }
    }

    pub fn notes(&self) -> impl Iterator<Item = String> + '_ {
        self.own_forms.iter().map(|(attribute, count)| {
            format!("{attribute}: stored as its own normal form, as slapd's overlays do (entries: {count})")
        })
    }
}
