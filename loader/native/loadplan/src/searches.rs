//! The searches with which clients find the entries of a kind.

use std::cell::Cell;
use std::collections::HashMap;

use crate::unique::{flattened, is_unique, never_overlap, words_of};
use synth::model::{Kind, Template, Text};

/// A filter with which clients search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchFilter {
    pub attribute: String,
    pub form: FilterForm,
    /// Whether a search with this filter finds at most one entry of the tree.
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

/// The attribute, form and weight of a search.
pub type SearchWeight = (String, FilterForm, u64);

/// Attributes of common schemas that have an equality matching rule, except objectClass.
const WITH_EQUALITY: &str = "\
    acctAlias acctCustomer acctLogin businessCategory carLicense cn departmentNumber displayName employeeNumber \
    employeeType gidNumber givenName homeDirectory homePhone initials ipHostNumber l macAddress mail manager member \
    memberUid mobile o ou owner pager physicalDeliveryOfficeName postalCode postOfficeBox preferredLanguage \
    roleOccupant roomNumber secretary seeAlso serialNumber sn st street telephoneNumber title uid uidNumber \
    uniqueMember";
/// Attributes that users search for by the beginning of a value. All have a substring matching rule.
const WITH_BEGINNING: &str = "cn sn givenName displayName mail uid";

/// Weights of derived searches: by a naming attribute, by another attribute with unique values, by an attribute with
/// values that several entries share, and by the beginning of a value.
const NAMING: u64 = 100;
const UNIQUE: u64 = 40;
const SHARED: u64 = 2;
const BEGINNING: u64 = 2;

/// Returns the filters for the entries of a kind. If no searches are requested, derives them from the attributes.
pub fn filters(texts: &Texts<'_>, kind: &Kind, count: u64, requested: &[SearchWeight]) -> Vec<SearchFilter> {
    let searches = if requested.is_empty() { derived(kind) } else { requested.to_vec() };
    let mut filters = Vec::new();
    for (attribute, form, weight) in searches {
        if kind.attributes.iter().any(|known| known.description.eq_ignore_ascii_case(&attribute)) {
            let unique = form == FilterForm::Equality && texts.finds_one(kind, count, &attribute);
            let weight = if requested.is_empty() && unique && weight == SHARED { UNIQUE } else { weight };
            filters.push(SearchFilter { attribute, form, unique, weight });
        }
    }
    filters
}

fn derived(kind: &Kind) -> Vec<SearchWeight> {
    let has = |names: &str, name: &str| names.split(' ').any(|known| known.eq_ignore_ascii_case(name));
    let mut searches = Vec::new();
    for attribute in &kind.attributes {
        let name = attribute.description.as_str();
        if is_naming(kind, name) {
            searches.push((name.to_owned(), FilterForm::Equality, NAMING));
        } else if has(WITH_EQUALITY, name) {
            searches.push((name.to_owned(), FilterForm::Equality, SHARED));
        }
        if has(WITH_BEGINNING, name) {
            searches.push((name.to_owned(), FilterForm::Beginning, BEGINNING));
        }
    }
    searches
}

pub fn is_naming(kind: &Kind, attribute: &str) -> bool {
    kind.rdn.iter().any(|name| name.eq_ignore_ascii_case(attribute))
}

/// All texts of a template by attribute type, to decide which searches find one entry.
pub struct Texts<'t> {
    template: &'t Template,
    /// Maps each attribute type in lower case to its texts, each with the name of its kind.
    by_type: HashMap<String, Vec<(&'t str, Text)>>,
    /// Remaining number of comparisons.
    comparisons: Cell<u64>,
}

/// Maximum number of comparisons of words, which bounds the time for an untrusted template. When it is reached, values
/// that are not yet compared count as not unique.
const MOST_COMPARISONS: u64 = 20_000_000;

impl<'t> Texts<'t> {
    pub fn new(template: &'t Template) -> Self {
        let mut by_type: HashMap<String, Vec<_>> = HashMap::new();
        for kind in &template.kinds {
            for attribute in &kind.attributes {
                let texts = attribute.items.iter().map(|item| flattened(kind, &item.text));
                let of_type = by_type.entry(type_of(&attribute.description)).or_default();
                of_type.extend(texts.map(|text| (kind.name.as_str(), text)));
            }
        }
        Self { template, by_type, comparisons: Cell::new(MOST_COMPARISONS) }
    }

    /// Whether a search for any value that the attribute has in an entry of this kind finds only this entry.
    fn finds_one(&self, kind: &Kind, count: u64, attribute: &str) -> bool {
        let attribute = type_of(attribute);
        let texts = self.by_type.get(&attribute).map_or(&[][..], Vec::as_slice);
        let (own, others): (Vec<_>, Vec<_>) = texts.iter().partition(|(name, _)| *name == kind.name);
        !self.template.branches.iter().any(|branch| type_of(&branch.dn) == attribute)
            && own.iter().enumerate().all(|(at, (_, text))| {
                let rest = own[at + 1..].iter().chain(&others);
                is_unique(self.template, kind, count, text)
                    && rest.into_iter().all(|(_, other)| self.are_apart(text, other))
            })
    }

    fn are_apart(&self, one: &Text, other: &Text) -> bool {
        let words = |text: &Text| words_of(self.template, text);
        let cost = words(one).saturating_mul(words(other)) + 1;
        let Some(remaining) = self.comparisons.get().checked_sub(cost) else { return false };
        self.comparisons.set(remaining);
        never_overlap(self.template, one, other)
    }
}

/// Returns the attribute type: `uid` for `uid;x-option` and for `uid=...`.
fn type_of(text: &str) -> String {
    let end = text.find([';', '=']).unwrap_or(text.len());
    text[..end].to_ascii_lowercase()
}
