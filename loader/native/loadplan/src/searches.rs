//! The searches with which clients find the entries of a kind.

use std::cell::Cell;
use std::collections::HashMap;

use crate::unique::{flattened, is_unique, never_overlap, words_of};
use synth::model::{Kind, Template, Text};

/// A filter by which clients search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchFilter {
    pub attribute: String,
    pub form: FilterForm,
    /// Whether the search finds at most one entry of the tree.
    pub unique: bool,
    pub weight: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterForm {
    /// `(uid=x)`
    Equality,
    /// `(cn=x*)`
    Beginning,
}

/// A search that the caller requests: its attribute, form and weight.
pub type SearchWeight = (String, FilterForm, u64);

/// Attributes of common schemas that have an EQUALITY rule; the flag says whether they also have a SUBSTR rule.
const ATTRIBUTES: [(&str, bool); 45] = [
    ("acctAlias", true),
    ("acctCustomer", true),
    ("acctLogin", true),
    ("businessCategory", true),
    ("cn", true),
    ("departmentNumber", true),
    ("displayName", true),
    ("employeeNumber", true),
    ("employeeType", true),
    ("gidNumber", false),
    ("givenName", true),
    ("homeDirectory", false),
    ("homePhone", true),
    ("initials", true),
    ("ipHostNumber", false),
    ("l", true),
    ("macAddress", false),
    ("mail", true),
    ("member", false),
    ("memberUid", false),
    ("mobile", true),
    ("o", true),
    ("objectClass", false),
    ("ou", true),
    ("owner", false),
    ("pager", true),
    ("physicalDeliveryOfficeName", true),
    ("postOfficeBox", true),
    ("postalCode", true),
    ("preferredLanguage", true),
    ("roleOccupant", false),
    ("roomNumber", true),
    ("secretary", false),
    ("seeAlso", false),
    ("serialNumber", true),
    ("sn", true),
    ("st", true),
    ("street", true),
    ("telephoneNumber", true),
    ("title", true),
    ("uid", true),
    ("uidNumber", false),
    ("uniqueMember", false),
    ("manager", false),
    ("carLicense", true),
];
/// Attributes that users search for by the beginning of a value.
const TYPED: [&str; 6] = ["cn", "sn", "givenName", "displayName", "mail", "uid"];

const NAMING: u64 = 100;
const UNIQUE: u64 = 40;
const SHARED: u64 = 2;
const BEGINNING: u64 = 2;

/// Returns the filters for the entries of a kind; empty if no attribute is suitable.
pub fn looks(texts: &Texts<'_>, kind: &Kind, count: u64, wanted: &[SearchWeight]) -> Vec<SearchFilter> {
    let all = if wanted.is_empty() { usual(kind) } else { wanted.to_vec() };
    let mut found = Vec::new();
    for (attribute, form, weight) in all {
        if !has(kind, &attribute) {
            continue;
        }
        let unique = form == FilterForm::Equality && texts.finds_one(kind, count, &attribute);
        let weight = if wanted.is_empty() && unique && weight == SHARED { UNIQUE } else { weight };
        found.push(SearchFilter { attribute, form, unique, weight });
    }
    found
}

fn usual(kind: &Kind) -> Vec<SearchWeight> {
    let mut found = Vec::new();
    for attribute in &kind.attributes {
        let name = attribute.description.as_str();
        let known = ATTRIBUTES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        if is_naming(kind, name) {
            found.push((name.to_owned(), FilterForm::Equality, NAMING));
        } else if known.is_some() && !name.eq_ignore_ascii_case("objectClass") {
            found.push((name.to_owned(), FilterForm::Equality, SHARED));
        }
        let typed = TYPED.iter().any(|typed| typed.eq_ignore_ascii_case(name));
        if typed && known.is_some_and(|(_, substrings)| *substrings) {
            found.push((name.to_owned(), FilterForm::Beginning, BEGINNING));
        }
    }
    found
}

pub fn has(kind: &Kind, attribute: &str) -> bool {
    kind.attributes.iter().any(|one| one.description.eq_ignore_ascii_case(attribute))
}

pub fn is_naming(kind: &Kind, attribute: &str) -> bool {
    kind.rdn.iter().any(|name| name.eq_ignore_ascii_case(attribute))
}

/// All texts of a template, by attribute type.
pub struct Texts<'t> {
    template: &'t Template,
    /// Maps each attribute type in lower case to its kinds and texts.
    by_type: HashMap<String, Vec<(&'t str, Text)>>,
    /// Number of comparisons that are left. The limit bounds the time for an untrusted template; when it reaches 0, all
    /// further values count as not unique.
    left: Cell<u64>,
}

const COMPARISONS: u64 = 20_000_000;

impl<'t> Texts<'t> {
    pub fn new(template: &'t Template) -> Self {
        let mut by_type: HashMap<String, Vec<_>> = HashMap::new();
        for kind in &template.kinds {
            for attribute in &kind.attributes {
                let texts = attribute.items.iter().map(|item| flattened(kind, &item.text));
                let known = by_type.entry(type_of(&attribute.description)).or_default();
                known.extend(texts.map(|text| (kind.name.as_str(), text)));
            }
        }
        Self { template, by_type, left: Cell::new(COMPARISONS) }
    }

    /// Whether no value of the attribute in an entry of this kind occurs in any other entry of the tree.
    fn finds_one(&self, kind: &Kind, count: u64, attribute: &str) -> bool {
        let wanted = type_of(attribute);
        let texts = self.by_type.get(&wanted).map_or(&[][..], Vec::as_slice);
        let (own, others): (Vec<_>, Vec<_>) = texts.iter().partition(|(name, _)| *name == kind.name);
        let branch = |dn: &str| type_of(dn) == wanted;
        !self.template.branches.iter().any(|one| branch(&one.dn))
            && own.iter().enumerate().all(|(at, (_, text))| {
                let rest = own[at + 1..].iter().chain(&others);
                is_unique(self.template, kind, count, text)
                    && rest.into_iter().all(|(_, other)| self.are_apart(text, other))
            })
    }

    fn are_apart(&self, one: &Text, other: &Text) -> bool {
        let words = |text: &Text| words_of(self.template, text);
        let cost = words(one).saturating_mul(words(other)) + 1;
        let Some(left) = self.left.get().checked_sub(cost) else { return false };
        self.left.set(left);
        never_overlap(self.template, one, other)
    }
}

/// Returns the attribute type: `uid` for `uid;x-option` and for `uid=...`.
fn type_of(text: &str) -> String {
    let end = text.find([';', '=']).unwrap_or(text.len());
    text[..end].to_ascii_lowercase()
}
