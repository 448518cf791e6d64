//! Names of suffixes and branches, and what an entry of one needs besides.

/// What can name an entry that is made from its name alone, and its object classes, the structural one last.
const MADE: [(&str, &[&str]); 5] = [
    ("dc", &["dcObject", "organization"]),
    ("o", &["organization"]),
    ("ou", &["organizationalUnit"]),
    ("l", &["locality"]),
    ("c", &["country"]),
];

/// Attributes and values.
pub type Lines<'t> = Vec<(&'t str, &'t str)>;

/// What has a meaning of its own in a DN (RFC 4514).
const SPECIAL: [char; 9] = [',', '+', '"', '\\', '<', '>', ';', '=', '#'];

/// An attribute and its value, as they stand first in a plain DN: one without escapes. What is wrong with it otherwise.
pub fn first_of(dn: &str) -> Result<(&str, &str), String> {
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

/// Attributes and values of an entry that is known by its name only; the structural object class.
pub fn made(dn: &str) -> Result<(Lines<'_>, &'static str), String> {
    let (attribute, value) = first_of(dn)?;
    let known = MADE.iter().find(|(name, _)| name.eq_ignore_ascii_case(attribute));
    let (name, classes) = known.ok_or_else(|| {
        format!("{dn:?}: must be a plain DN that begins with dc=, o=, ou=, l= or c=")
    })?;
    let mut lines: Lines<'_> = classes.iter().map(|class| ("objectClass", *class)).collect();
    lines.push((name, value));
    if *name == "dc" {
        lines.push(("o", value));
    }
    Ok((lines, classes[classes.len() - 1]))
}

/// Whether an attribute description is one (RFC 4512, 2.5).
pub fn is_description(text: &str) -> bool {
    let mut parts = text.split(';');
    let is_word = |part: &str| {
        !part.is_empty()
            && part.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-')
    };
    let kind = parts.next().unwrap_or_default();
    let is_name = kind.starts_with(|letter: char| letter.is_ascii_alphabetic()) && is_word(kind);
    (is_name || is_oid(kind)) && parts.all(is_word)
}

fn is_oid(text: &str) -> bool {
    text.contains('.')
        && text
            .split('.')
            .all(|part| !part.is_empty() && part.chars().all(|one| one.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suffix_has_an_entry_of_its_kind() {
        for (dn, class) in [
            ("dc=example,dc=com", "organization"),
            ("o=Example Ltd,c=GB", "organization"),
            ("OU=test,o=example", "organizationalUnit"),
            ("l=Z\u{fc}rich,c=CH", "locality"),
            ("c=CH", "country"),
        ] {
            assert_eq!(made(dn).unwrap().1, class);
        }
    }

    #[test]
    fn what_cannot_be_made_is_refused() {
        for dn in
            ["", "example.com", "cn=x", "dc=a+o=b", "dc=", "o=\"a,b\"", "dc=a,,dc=b", "dc=a\n"]
        {
            assert!(made(dn).is_err(), "{dn:?}");
        }
    }

    #[test]
    fn descriptions() {
        for good in ["cn", "cn;lang-de", "2.5.4.3", "userCertificate;binary"] {
            assert!(is_description(good), "{good}");
        }
        for wrong in ["", "c n", "1x", "cn;", ";x", "2..5", "c\u{e9}"] {
            assert!(!is_description(wrong), "{wrong}");
        }
    }
}
