//! DNs of branches, as text: their parts, and what those say.

use tree::name::{ParsedDn, trim_value, unescape};

use super::render::path::part;

/// A DN without the spaces around its separators.
#[derive(Clone, Debug)]
pub struct Dn {
    pub text: String,
}

/// Attribute and value; attributes as they are written.
pub type Assertion = (String, String);

impl Dn {
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a DN");
        let mut rest = text;
        let mut parts = Vec::new();
        loop {
            let first = &rest[part(rest.as_bytes(), 1)];
            let tidy: Option<Vec<String>> = split(first, b'+').into_iter().map(tidy).collect();
            parts.push(tidy.ok_or_else(wrong)?.join("+"));
            match rest.get(first.len() + 1..) {
                Some(behind) => rest = behind,
                None => return Ok(Self { text: parts.join(",") }),
            }
        }
    }

    /// What its first part says.
    pub fn assertions(&self) -> Vec<Assertion> {
        let pairs = split(self.part(1), b'+').into_iter().filter_map(|one| one.split_once('='));
        pairs.map(|(attribute, value)| (attribute.to_owned(), plain(value))).collect()
    }

    /// So many parts from its beginning, or from its end.
    pub fn part(&self, parts: i32) -> &str {
        &self.text[part(self.text.as_bytes(), parts)]
    }

    /// The part before that of `above`; None when it does not lie below it.
    pub fn below(&self, above: &Self) -> Option<&str> {
        let (own, over) =
            (ParsedDn::new(self.text.as_bytes()), ParsedDn::new(above.text.as_bytes()));
        let parts = i32::try_from(own.depth().checked_sub(over.depth())?).ok()?;
        let end = &self.text[self.part(parts).len()..];
        let is_below =
            parts > 0 && ParsedDn::new(end.trim_start_matches(',').as_bytes()).key() == over.key();
        is_below.then(|| self.part(parts))
    }
}

/// `attribute=value` without the spaces around it.
fn tidy(text: &str) -> Option<String> {
    let (attribute, value) = text.split_once('=')?;
    let attribute = attribute.trim();
    let is_good = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.');
    let value = std::str::from_utf8(trim_value(value.as_bytes())).ok()?;
    let is_named = !attribute.is_empty() && attribute.chars().all(is_good);
    (is_named && !value.is_empty() && !value.contains(char::is_control))
        .then(|| format!("{attribute}={value}"))
}

fn split(text: &str, separator: u8) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, byte) in text.bytes().enumerate() {
        if byte == separator && !escaped {
            parts.push(&text[start..at]);
            start = at + 1;
        }
        escaped = byte == b'\\' && !escaped;
    }
    parts.push(&text[start..]);
    parts
}

fn plain(value: &str) -> String {
    let mut found = Vec::new();
    let mut rest = value.as_bytes();
    while let Some((byte, behind)) = unescape(rest) {
        found.push(byte);
        rest = behind;
    }
    String::from_utf8_lossy(&found).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_around_separators_go() {
        let dn = Dn::parse(r"OU= a b +cn=c ,  dc=x\, y").unwrap();
        assert_eq!(dn.text, r"OU=a b+cn=c,dc=x\, y");
        let assertions = dn.assertions();
        let said: Vec<_> =
            assertions.iter().map(|(one, value)| (one.as_str(), value.as_str())).collect();
        assert_eq!(said, [("OU", "a b"), ("cn", "c")]);
        assert_eq!(Dn::parse(r"dc=x\2C\ y").unwrap().assertions()[0].1, "x, y");
        for wrong in ["", "x", "dc=", "=x", "dc=a,,dc=b", "dc=a+", "d c=x", "dc=a,"] {
            assert!(Dn::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_lies_below_is_told() {
        let dn = |text| Dn::parse(text).unwrap();
        assert_eq!(dn("ou=a,ou=b,DC=x,dc=Y").below(&dn("dc=X, dc=y")), Some("ou=a,ou=b"));
        assert_eq!(dn("dc=x").below(&dn("dc=x")), None);
        assert_eq!(dn("ou=a,dc=z").below(&dn("dc=x")), None);
        assert_eq!(dn("dc=x").below(&dn("ou=a,dc=x")), None);
    }
}
