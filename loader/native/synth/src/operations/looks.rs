//! What clients search a kind of entry by.

use crate::model::{Kind, Template, Text};
use crate::operations::unique::{are_apart, flattened, is_unique};

/// One way to search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    pub attribute: String,
    pub form: Form,
    /// At most one entry of the tree is found.
    pub unique: bool,
    pub weight: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `(uid=x)`
    Equality,
    /// `(cn=x*)`
    Beginning,
}

/// What a caller asks for instead: attribute, form and weight.
pub type Wanted = (String, Form, u64);

/// Attributes of the usual schemas that have a rule for equality; whether they have one for substrings too.
const KNOWN: [(&str, bool); 45] = [
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
/// Those that people type the beginning of.
const TYPED: [&str; 6] = ["cn", "sn", "givenName", "displayName", "mail", "uid"];

const NAMING: u64 = 100;
const UNIQUE: u64 = 40;
const SHARED: u64 = 2;
const BEGINNING: u64 = 2;

/// How a kind is searched, or nothing that is known to be worth it.
pub fn looks(template: &Template, kind: &Kind, count: u64, wanted: &[Wanted]) -> Vec<Look> {
    let all = if wanted.is_empty() { usual(kind) } else { wanted.to_vec() };
    let mut found = Vec::new();
    for (attribute, form, weight) in all {
        if !has(kind, &attribute) {
            continue;
        }
        let unique = form == Form::Equality && finds_one(template, kind, count, &attribute);
        let weight = if wanted.is_empty() && unique && weight == SHARED { UNIQUE } else { weight };
        found.push(Look { attribute, form, unique, weight });
    }
    found
}

fn usual(kind: &Kind) -> Vec<Wanted> {
    let mut found = Vec::new();
    for attribute in &kind.attributes {
        let name = attribute.description.as_str();
        let known = KNOWN.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        if is_naming(kind, name) {
            found.push((name.to_owned(), Form::Equality, NAMING));
        } else if known.is_some() && !name.eq_ignore_ascii_case("objectClass") {
            found.push((name.to_owned(), Form::Equality, SHARED));
        }
        let typed = TYPED.iter().any(|typed| typed.eq_ignore_ascii_case(name));
        if typed && known.is_some_and(|(_, substrings)| *substrings) {
            found.push((name.to_owned(), Form::Beginning, BEGINNING));
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

/// No other entry of the tree has a value of that attribute that one of this kind has.
fn finds_one(template: &Template, kind: &Kind, count: u64, attribute: &str) -> bool {
    let mut own = Vec::new();
    let mut others = Vec::new();
    for one in &template.kinds {
        let same = one.name == kind.name;
        for held in one.attributes.iter().filter(|held| is_type(&held.description, attribute)) {
            let texts = held.items.iter().map(|item| flattened(one, &item.text));
            if same { own.extend(texts) } else { others.extend(texts) }
        }
    }
    let named = template.branches.iter().any(|branch| is_type(&branch.dn, attribute));
    own.iter().all(|text| is_unique(template, kind, count, text))
        && own.iter().all(|text| others.iter().all(|other| are_apart(template, text, other)))
        && (own.len() == 1 || pairs_are_apart(template, &own))
        && !named
}

fn pairs_are_apart(template: &Template, texts: &[Text]) -> bool {
    let after = |at: usize| texts[at + 1..].iter();
    texts.iter().enumerate().all(|(at, one)| after(at).all(|other| are_apart(template, one, other)))
}

/// `uid;x-option` and `uid=...` are of the type `uid`.
fn is_type(text: &str, attribute: &str) -> bool {
    let end = text.find([';', '=']).unwrap_or(text.len());
    text[..end].eq_ignore_ascii_case(attribute)
}
