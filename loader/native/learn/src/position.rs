//! The position of an entry: its DN, and its path, which has only the types of the RDNs.

use tree::name::ParsedDn;
use xxhash_rust::xxh3::xxh3_64;

#[derive(Debug, Default)]
pub struct Position {
    pub name: ParsedDn,
    /// The types of the RDNs from the entry upwards, as in `uid,ou,dc,dc`.
    pub path: Vec<u8>,
}

impl Position {
    pub fn new(dn: &[u8]) -> Self {
        let mut position = Self::default();
        position.set(dn);
        position
    }

    pub fn set(&mut self, dn: &[u8]) {
        self.name.set(dn);
        self.path.clear();
        push_types(self.name.key(), &mut self.path);
    }

    /// Whether all parts of the path could be attribute types. In an untrusted source, they may be anything.
    pub fn has_types(&self) -> bool {
        std::str::from_utf8(&self.path)
            .is_ok_and(|path| path.is_empty() || path.split([',', '+']).all(synth::is_description))
    }

    /// Returns the hash of the entry's DN.
    pub fn hash(&self) -> u64 {
        xxh3_64(self.name.key())
    }

    /// Returns the hash of the parent's DN.
    pub fn parent_hash(&self) -> u64 {
        xxh3_64(self.name.parent())
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

/// Appends the types of a normalized DN to `path`, with the commas and plus signs between them.
fn push_types(key: &[u8], path: &mut Vec<u8>) {
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
        let place = Position::new(br"CN=a\,b=c+sn=d , ou=Some Where,DC=example,dc=com");
        assert_eq!(place.path, b"cn+sn,ou,dc,dc");
        assert_eq!(place.parent_hash(), Position::new(b"OU=some where,dc=example,dc=com").hash());
        assert_eq!((above("uid,ou,dc"), above("dc"), length("uid,ou,dc"), length("")), ("ou,dc", "", 3, 0));
    }
}
