//! Compiles the suffix and the branches, with the attributes that their naming attributes require.

use std::collections::HashSet;

use tree::name::ParsedDn;

use super::Context;
use super::items::{Place, constant};
use crate::body::{Attribute, Body, Item};
use crate::model;
use crate::problem::Problem;
use crate::tags::Slots;
use crate::tree::Branch;

/// Naming attributes for which an entry can be generated, with its object classes; the structural class is last.
const GENERATED: [(&str, &[&str]); 5] = [
    ("dc", &["dcObject", "organization"]),
    ("o", &["organization"]),
    ("ou", &["organizationalUnit"]),
    ("l", &["locality"]),
    ("c", &["country"]),
];

/// Attributes with their values.
type Lines<'t> = Vec<(&'t str, &'t str)>;

/// Characters that have a special meaning in a DN (RFC 4514).
const SPECIAL: [char; 9] = [',', '+', '"', '\\', '<', '>', ';', '=', '#'];

/// Returns the naming attribute and value of a DN, or an error message if the DN has escapes.
fn first_of(dn: &str) -> Result<(&str, &str), String> {
    let mut parts = dn.split(',').map(assertion);
    let first = parts.next().flatten();
    if parts.any(|part| part.is_none()) {
        return Err(format!("{dn:?} is not a plain DN"));
    }
    first.ok_or_else(|| format!("{dn:?} is not a plain DN"))
}

fn assertion(part: &str) -> Option<(&str, &str)> {
    let (attribute, value) = part.split_once('=')?;
    let (attribute, value) = (attribute.trim_matches(' '), value.trim_matches(' '));
    let is_named = attribute.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && attribute.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-');
    (is_named && !value.is_empty() && !value.contains(SPECIAL) && !value.contains(char::is_control))
        .then_some((attribute, value))
}

/// Returns the attributes, their values and the structural object class of an entry that is described by its DN only.
fn generated(dn: &str) -> Result<(Lines<'_>, &'static str), String> {
    let (attribute, value) = first_of(dn)?;
    let known = GENERATED.iter().find(|(name, _)| name.eq_ignore_ascii_case(attribute));
    let (name, classes) =
        known.ok_or_else(|| format!("{dn:?}: must be a plain DN that begins with dc=, o=, ou=, l= or c="))?;
    let mut lines: Lines<'_> = classes.iter().map(|class| ("objectClass", *class)).collect();
    lines.push((name, value));
    if *name == "dc" {
        lines.push(("o", value));
    }
    Ok((lines, classes[classes.len() - 1]))
}

/// Whether the text is a valid attribute description (RFC 4512, 2.5).
pub fn is_description(text: &str) -> bool {
    let mut parts = text.split(';');
    let is_word =
        |part: &str| !part.is_empty() && part.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-');
    let kind = parts.next().unwrap_or_default();
    let is_name = kind.starts_with(|letter: char| letter.is_ascii_alphabetic()) && is_word(kind);
    (is_name || is_oid(kind)) && parts.all(is_word)
}

fn is_oid(text: &str) -> bool {
    text.contains('.') && text.split('.').all(|part| !part.is_empty() && part.chars().all(|one| one.is_ascii_digit()))
}

pub fn compile(context: &Context<'_>) -> Result<Vec<Branch>, Problem> {
    let mut found = Vec::new();
    let mut keys: HashSet<Vec<u8>> = HashSet::new();
    for (place, branch) in context.template.branches.iter().enumerate() {
        let suffix = context.suffix;
        let dn = if branch.dn.is_empty() { suffix.into() } else { format!("{},{suffix}", branch.dn) };
        let name = ParsedDn::new(dn.as_bytes());
        if place > 0 && !keys.contains(name.parent()) {
            let reason = format!("{:?}: its parent must come before it", branch.dn);
            return Err(context.wrong(branch.spot, reason));
        }
        if !keys.insert(name.key().to_vec()) {
            return Err(context.wrong(branch.spot, format!("{:?} occurs twice", branch.dn)));
        }
        found.push(compile_one(context, branch, dn)?);
    }
    Ok(found)
}

fn compile_one(context: &Context<'_>, branch: &model::Branch, dn: String) -> Result<Branch, Problem> {
    let refused = |reason: String| {
        if context.is_override && branch.dn.is_empty() {
            return Problem::asked(&context.template.path, format!("suffix {reason}"));
        }
        context.wrong(branch.spot, reason)
    };
    if branch.attributes.is_empty() {
        let (lines, class) = generated(&dn).map_err(refused)?;
        let body = Body { slots: Vec::new(), attributes: constants(&lines) };
        return Ok(Branch { body, structural: Some(class.to_owned()), dn: dn.into_bytes() });
    }
    let naming = dn.split('=').next().unwrap_or_default().trim();
    let is_named = |one: &model::Attribute| one.description.eq_ignore_ascii_case(naming);
    let own =
        if branch.attributes.iter().any(is_named) { Vec::new() } else { constants(&[first_of(&dn).map_err(refused)?]) };
    let (slots, head) = (Slots::new(), ["branch", dn.as_str()]);
    let place = Place { context, head, slots: &slots, kinds: &[], kind: None };
    let mut attributes = place.attributes(&branch.attributes)?;
    attributes.extend(own);
    let body = Body { slots: Vec::new(), attributes };
    Ok(Branch { body, structural: None, dn: dn.into_bytes() })
}

/// Builds attributes with constant values from the lines of an entry.
fn constants(lines: &[(&str, &str)]) -> Vec<Attribute> {
    let mut found: Vec<(&str, Vec<Item>)> = Vec::new();
    for (description, value) in lines {
        let item = constant(value.as_bytes());
        match found.last_mut().filter(|last| last.0 == *description) {
            Some(last) => last.1.push(item),
            None => found.push((description, vec![item])),
        }
    }
    found.into_iter().map(|(description, items)| Attribute::new(description, items, false)).collect()
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
