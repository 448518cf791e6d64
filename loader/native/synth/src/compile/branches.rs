//! Compiles the suffix and the branches. If a branch has no attributes, generates the attributes that its RDN requires.

use std::collections::HashSet;

use tree::name::ParsedDn;

use super::Context;
use super::items::Place;
use crate::body::Body;
use crate::model::{self, Attribute, Item, Piece};
use crate::problem::{Location, Problem};
use crate::tags::Slots;
use crate::tree::Branch;

/// Naming attributes for which an entry can be generated, each with the object classes of the entry. The structural
/// class is the last.
const GENERATED: [(&str, &[&str]); 5] = [
    ("dc", &["dcObject", "organization"]),
    ("o", &["organization"]),
    ("ou", &["organizationalUnit"]),
    ("l", &["locality"]),
    ("c", &["country"]),
];

/// Characters that have a special meaning in a DN (RFC 4514).
const SPECIAL: [char; 9] = [',', '+', '"', '\\', '<', '>', ';', '=', '#'];

/// Returns the naming attribute and value of a DN, or an error message if the DN has escapes or multi-valued RDNs.
fn naming(dn: &str) -> Result<(&str, &str), String> {
    let rdns: Option<Vec<_>> = dn.split(',').map(assertion).collect();
    rdns.map(|rdns| rdns[0]).ok_or_else(|| format!("{dn:?} is not a plain DN"))
}

/// Returns the attribute and value of a plain RDN.
fn assertion(part: &str) -> Option<(&str, &str)> {
    let (attribute, value) = part.split_once('=')?;
    let (attribute, value) = (attribute.trim_matches(' '), value.trim_matches(' '));
    let is_named = attribute.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && attribute.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-');
    (is_named && !value.is_empty() && !value.contains(SPECIAL) && !value.contains(char::is_control))
        .then_some((attribute, value))
}

/// Returns the attributes and the structural object class of an entry that is described by its DN only.
fn generated(dn: &str) -> Result<(Vec<Attribute>, &'static str), String> {
    let (attribute, value) = naming(dn)?;
    let generated = GENERATED.iter().find(|(name, _)| name.eq_ignore_ascii_case(attribute));
    let (name, classes) =
        generated.ok_or_else(|| format!("{dn:?}: must be a plain DN that begins with dc=, o=, ou=, l= or c="))?;
    let mut attributes = vec![constant("objectClass", classes), constant(name, &[value])];
    if *name == "dc" {
        attributes.push(constant("o", &[value]));
    }
    Ok((attributes, classes[classes.len() - 1]))
}

fn constant(description: &str, values: &[&str]) -> Attribute {
    let spot = Location::default();
    let item = |value: &&str| Item::always(spot, vec![Piece::Literal(value.as_bytes().to_vec())]);
    Attribute { spot, description: description.to_owned(), items: values.iter().map(item).collect() }
}

/// Whether the text is a valid attribute description (RFC 4512, 2.5).
pub fn is_description(text: &str) -> bool {
    let mut parts = text.split(';');
    let is_word =
        |part: &str| !part.is_empty() && part.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-');
    let kind = parts.next().unwrap_or_default();
    let is_name = kind.starts_with(|letter: char| letter.is_ascii_alphabetic()) && is_word(kind);
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit());
    let is_oid = kind.contains('.') && kind.split('.').all(is_number);
    (is_name || is_oid) && parts.all(is_word)
}

/// Returns an error if the parent of a branch does not come before the branch, or if a branch occurs twice.
pub fn compile(context: &Context<'_>) -> Result<Vec<Branch>, Problem> {
    let mut branches = Vec::new();
    let mut keys: HashSet<Vec<u8>> = HashSet::new();
    for (index, branch) in context.template.branches.iter().enumerate() {
        let suffix = context.suffix;
        let dn = if branch.dn.is_empty() { suffix.into() } else { format!("{},{suffix}", branch.dn) };
        let name = ParsedDn::new(dn.as_bytes());
        if index > 0 && !keys.contains(name.parent()) {
            return Err(context.wrong(branch.spot, format!("{:?}: its parent must come before it", branch.dn)));
        }
        if !keys.insert(name.key().to_vec()) {
            return Err(context.wrong(branch.spot, format!("{:?} occurs twice", branch.dn)));
        }
        branches.push(compile_branch(context, branch, dn)?);
    }
    Ok(branches)
}

fn compile_branch(context: &Context<'_>, branch: &model::Branch, dn: String) -> Result<Branch, Problem> {
    let refused = |reason: String| {
        if context.is_override && branch.dn.is_empty() {
            return Problem::asked(&context.template.path, format!("suffix {reason}"));
        }
        context.wrong(branch.spot, reason)
    };
    let (mut declared, mut structural) = (branch.attributes.clone(), None);
    let naming_type = dn.split('=').next().unwrap_or_default().trim();
    if declared.is_empty() {
        let (attributes, class) = generated(&dn).map_err(refused)?;
        (declared, structural) = (attributes, Some(class.to_owned()));
    } else if !declared.iter().any(|attribute| attribute.description.eq_ignore_ascii_case(naming_type)) {
        let (attribute, value) = naming(&dn).map_err(refused)?;
        declared.push(constant(attribute, &[value]));
    }
    let (slots, head) = (Slots::new(), ["branch", dn.as_str()]);
    let place = Place { context, head, slots: &slots, kinds: &[], kind: None };
    let body = Body { slots: Vec::new(), attributes: place.attributes(&declared)? };
    Ok(Branch { body, structural, dn: dn.into_bytes() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suffix_without_attributes_gets_an_entry_by_its_rdn() {
        for (dn, class) in [
            ("dc=example,dc=com", "organization"),
            ("o=Example Ltd,c=GB", "organization"),
            ("OU=test,o=example", "organizationalUnit"),
            ("l=Z\u{fc}rich,c=CH", "locality"),
            ("c=CH", "country"),
        ] {
            assert_eq!(generated(dn).unwrap().1, class);
        }
    }

    #[test]
    fn an_entry_that_cannot_be_generated_is_refused() {
        for dn in ["", "example.com", "cn=x", "dc=a+o=b", "dc=", "o=\"a,b\"", "dc=a,,dc=b", "dc=a\n"] {
            assert!(generated(dn).is_err(), "{dn:?}");
        }
    }

    #[test]
    fn attribute_descriptions_are_recognized() {
        for good in ["cn", "cn;lang-de", "2.5.4.3", "userCertificate;binary"] {
            assert!(is_description(good), "{good}");
        }
        for wrong in ["", "c n", "1x", "cn;", ";x", "2..5", "c\u{e9}"] {
            assert!(!is_description(wrong), "{wrong}");
        }
    }
}
