//! Compares DNs to find out which entries have children. Without a schema, more DNs count as equal than in slapd:
//! attribute types, case, spaces and hyphens are ignored. An entry that wrongly counts as a parent is shared, which
//! does no harm.

use std::mem;

use tree::name;
use values::Normaliser;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The key of the empty DN.
const ROOT: u64 = 0x5eed;

/// Hashes of an entry's DN and of its parent's DN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    pub own: u64,
    /// `None` if the entry is a suffix.
    pub parent: Option<u64>,
}

#[derive(Debug, Default)]
pub struct Keys {
    suffixes: Vec<u64>,
    /// The parent of the last DN, cached because the next entry often has the same parent.
    above: Vec<u8>,
    above_key: u64,
    value: Vec<u8>,
    normal: Vec<u8>,
}

impl Keys {
    pub fn new(suffixes: &[impl AsRef<str>]) -> Self {
        let mut keys = Self::default();
        keys.suffixes = suffixes.iter().map(|suffix| keys.whole(suffix.as_ref().as_bytes())).collect();
        keys
    }

    pub fn of(&mut self, dn: &[u8]) -> Key {
        if name::trim_spaces(dn).is_empty() {
            return Key { own: ROOT, parent: Some(ROOT) };
        }
        let comma = end(dn, b",;");
        let above = comma.map_or(&b""[..], |comma| &dn[comma + 1..]);
        if self.above != above || self.above_key == 0 {
            self.above_key = self.whole(above);
            self.above = above.to_vec();
        }
        let parent = self.above_key;
        let own = self.below(parent, &dn[..comma.unwrap_or(dn.len())]);
        let is_top = self.suffixes.contains(&own) || (parent == ROOT && self.suffixes.contains(&ROOT));
        Key { own, parent: (!is_top).then_some(parent) }
    }

    fn whole(&mut self, dn: &[u8]) -> u64 {
        if name::trim_spaces(dn).is_empty() {
            return ROOT;
        }
        let rdns: Vec<&[u8]> = name::pieces(dn, |text| end(text, b",;")).collect();
        rdns.iter().rev().fold(ROOT, |above, rdn| self.below(above, rdn))
    }

    /// Returns the key of the DN `rdn` below the key `above`. An RDN's parts have no order, so their hashes are added.
    fn below(&mut self, above: u64, rdn: &[u8]) -> u64 {
        let parts = name::pieces(rdn, |text| end(text, b"+"));
        let sum = parts.fold(0, |sum: u64, part| sum.wrapping_add(self.assertion(part)));
        xxh3_64_with_seed(&sum.to_le_bytes(), above)
    }

    fn assertion(&mut self, part: &[u8]) -> u64 {
        let equals = part.iter().position(|&byte| byte == b'=');
        let mut rest = name::trim_value(&part[equals.map_or(0, |at| at + 1)..]);
        self.value.clear();
        while let Some((byte, more)) = name::unescape(rest) {
            self.value.push(byte);
            rest = more;
        }
        let mut normal = mem::take(&mut self.normal);
        normal.clear();
        if Normaliser::CaseIgnore.apply(&self.value, &mut normal).is_err() {
            normal.extend_from_slice(&self.value);
        }
        normal.retain(|byte| !matches!(byte, b' ' | b'-' | b'"'));
        let hash = xxh3_64_with_seed(&normal, 1);
        self.normal = normal;
        hash
    }
}

/// Returns the offset of the first separator that is neither escaped nor quoted. Values may be quoted, as in RFC 1779.
fn end(text: &[u8], separators: &[u8]) -> Option<usize> {
    let (mut escaped, mut quoted, mut begins) = (false, false, false);
    text.iter().position(|&byte| {
        if escaped {
            escaped = false;
            return false;
        }
        escaped = byte == b'\\';
        quoted ^= byte == b'"' && (quoted || begins);
        begins = byte == b'=' || begins && byte == b' ';
        !quoted && separators.contains(&byte)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Keys {
        Keys::new(&["dc=example,dc=com"])
    }

    #[test]
    fn a_name_is_the_same_however_it_is_spelled() {
        let one = keys().of("ou=Zürich  West,dc=example,dc=com".as_bytes());
        for other in [
            "OU = zu\u{308}rich west , DC=Example,dc=com",
            "2.5.4.11=ZÜRICH West,domainComponent=example,dc=com",
            r"ou=Z\c3\bcrich west,dc=example,dc=com",
        ] {
            assert_eq!(keys().of(other.as_bytes()), one, "{other}");
        }
        assert_ne!(keys().of(b"ou=Bern,dc=example,dc=com").own, one.own);
        let two = |text: &[u8]| keys().of(text).own;
        assert_eq!(two(b"cn=a+sn=b,dc=example,dc=com"), two(b"sn=b+cn=a,dc=example,dc=com"));
    }

    #[test]
    fn names_of_ldap_version_2() {
        let one = keys().of(br"ou=a\, b\+c\=d,dc=example,dc=com");
        assert_eq!(keys().of(br#"ou="a, b+c=d" ; dc=example;dc=com"#), one);
        let half = keys().of(br#"ou=12" disk,dc=example,dc=com"#);
        assert_eq!(half.parent, one.parent);
    }

    #[test]
    fn parents_up_to_the_suffix() {
        let mut keys = keys();
        let suffix = keys.of(b"dc=Example, dc=com");
        assert_eq!(suffix.parent, None);
        let child = keys.of(b"ou=a,dc=example,dc=com");
        assert_eq!(child.parent, Some(suffix.own));
        assert_eq!(keys.of(b"cn=x,ou=a,dc=example,dc=com").parent, Some(child.own));
        assert_ne!(keys.of(b"cn=x,dc=com").parent, Some(suffix.own));
        let mut rootless = Keys::new(&[""]);
        assert_eq!(rootless.of(b"dc=com").parent, None);
        assert!(rootless.of(b"").parent.is_some());
    }
}
