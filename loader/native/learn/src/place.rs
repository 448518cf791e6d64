//! The position of an entry: the types of its RDNs up to the root, and hashes of its DN and its parent's.

use tree::name::ParsedDn;
use xxhash_rust::xxh3::xxh3_64;

#[derive(Debug, Default)]
pub struct Place {
    name: ParsedDn,
    path: Vec<u8>,
}

impl Place {
    pub fn new(dn: &[u8]) -> Self {
        let mut place = Self::default();
        place.set(dn);
        place
    }

    pub fn set(&mut self, dn: &[u8]) {
        self.name.set(dn);
        self.path.clear();
        types(self.name.key(), &mut self.path);
    }

    /// Returns the types of the RDNs from the entry upwards, as in `uid,ou,dc,dc`.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// Whether all parts could be attribute types; a DN from an untrusted source may have others.
    pub fn has_types(&self) -> bool {
        std::str::from_utf8(&self.path)
            .is_ok_and(|path| path.is_empty() || path.split([',', '+']).all(synth::is_description))
    }

    pub fn key(&self) -> &[u8] {
        self.name.key()
    }

    pub fn own(&self) -> u64 {
        xxh3_64(self.name.key())
    }

    pub fn parent(&self) -> u64 {
        xxh3_64(self.name.parent())
    }

    pub fn depth(&self) -> usize {
        self.name.depth()
    }
}

/// Returns the path of the parent.
pub fn above(path: &str) -> &str {
    path.split_once(',').map_or("", |(_, above)| above)
}

/// Returns the number of RDNs of a path.
pub fn length(path: &str) -> usize {
    if path.is_empty() { 0 } else { path.split(',').count() }
}

/// Appends a normalized DN without its values to `path`.
fn types(key: &[u8], path: &mut Vec<u8>) {
    let (mut in_type, mut escaped) = (true, false);
    for &byte in key {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' | b'+' => {
                path.push(byte);
                in_type = true;
            }
            b'=' => in_type = false,
            _ if in_type => path.push(byte),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_only_types() {
        let place = Place::new(br"CN=a\,b=c+sn=d , ou=Some Where,DC=example,dc=com");
        assert_eq!(place.path(), b"cn+sn,ou,dc,dc");
        assert_eq!(place.parent(), Place::new(b"OU=some where,dc=example,dc=com").own());
        assert_eq!((above("uid,ou,dc"), above("dc"), length("uid,ou,dc"), length("")), ("ou,dc", "", 3, 0));
    }
}
