//! The place of an entry in the tree: its RDN, its parent, and the hashes of both DNs.

use rustc_hash::FxHashMap;
use schema::{Dn, Rdn, Schema};
use values::InvalidValue;
use xxhash_rust::xxh3::xxh3_128;

use crate::encoded::{Hash, ROOT};
use codec::dn2i;

/// Maximum number of parent DNs that a worker caches.
const PARENTS: usize = 4096;

/// The suffixes of the database, and subordinate suffixes that belong to other databases.
pub struct Suffixes {
    /// Normalised.
    own: Vec<Vec<u8>>,
    foreign: Vec<Hash>,
    /// LMDB's limit for the length of a record in dn2i, in bytes.
    longest_row: usize,
}

/// An entry's RDN, the hash of its DN, and the hash of its parent's DN.
pub struct HashedDn {
    pub hash: Hash,
    pub parent: Hash,
    pub rdn: Rdn,
    /// For the entry of a suffix: the normalised and the pretty form of its whole DN, which dn2i stores as one RDN.
    pub suffix: Option<(Vec<u8>, Vec<u8>)>,
}

impl HashedDn {
    /// Returns the hashes of the empty DN, whose entry has no node in dn2i other than the root.
    pub fn of_root() -> Self {
        let names = (Vec::new(), Vec::new());
        Self { hash: ROOT, parent: ROOT, rdn: Rdn::default(), suffix: Some(names) }
    }

    /// Returns the normalised and the pretty name, as dn2i stores them.
    pub fn names(&self) -> (&[u8], &[u8]) {
        self.suffix.as_ref().map_or((&self.rdn.normal, &self.rdn.pretty), |(normal, pretty)| (normal, pretty))
    }
}

pub fn hash(parent: Hash, normal: &[u8]) -> Hash {
    // Most RDNs have at most 112 bytes, and clearing a larger buffer costs more than hashing.
    let mut text = [0; 16 + 112];
    text[..8].copy_from_slice(&parent[0].to_le_bytes());
    text[8..16].copy_from_slice(&parent[1].to_le_bytes());
    let hash = match text.get_mut(16..16 + normal.len()) {
        Some(room) => {
            room.copy_from_slice(normal);
            xxh3_128(&text[..16 + normal.len()])
        }
        None => xxh3_128(&[&text[..16], normal].concat()),
    };
    #[allow(clippy::cast_possible_truncation, reason = "the two halves")]
    [hash as u64, (hash >> 64) as u64]
}

impl Suffixes {
    /// Reads the suffixes. `longest_row`: LMDB's limit for a DUPSORT value in this file, in bytes.
    pub fn read(schema: &Schema, own: &[String], foreign: &[String], longest_row: usize) -> Result<Self, InvalidValue> {
        let normal = |text: &String| schema.dn(text.as_bytes()).map(|dn| dn.normal());
        let own = own.iter().map(normal).collect::<Result<_, _>>()?;
        let mut suffixes = Self { own, foreign: Vec::new(), longest_row };
        for text in foreign {
            let hash = suffixes.hash_of(&schema.dn(text.as_bytes())?)?;
            suffixes.foreign.push(hash);
        }
        Ok(suffixes)
    }

    fn expect_own(&self, hash: Hash) -> Result<Hash, InvalidValue> {
        if self.foreign.contains(&hash) {
            return Err(InvalidValue("another database holds it".into()));
        }
        Ok(hash)
    }

    /// Refuses a node name that slapd could not store or could not read back.
    fn require_room(&self, normal: &[u8], pretty: &[u8]) -> Result<(), InvalidValue> {
        if dn2i::fits(self.longest_row, normal, pretty) {
            return Ok(());
        }
        let most = dn2i::longest_name(self.longest_row);
        let reason = format!("the RDN is too long for the database: about {most} bytes are the most");
        Err(InvalidValue(reason.into()))
    }

    /// Returns the hash of the first suffix, whose entry gets contextCSN.
    pub fn first(&self) -> Option<Hash> {
        let of = |suffix: &Vec<u8>| if suffix.is_empty() { ROOT } else { hash(ROOT, suffix) };
        self.own.first().map(of)
    }

    /// Returns true if the empty DN is a suffix, so that the root itself may have an entry.
    pub fn has_empty(&self) -> bool {
        self.own.iter().any(Vec::is_empty)
    }

    fn is_suffix(&self, normal: &[u8]) -> bool {
        !normal.is_empty() && self.own.iter().any(|suffix| suffix == normal)
    }

    /// Returns the hash of a DN. Fails unless the DN is a suffix or below a suffix.
    fn hash_of(&self, dn: &Dn) -> Result<Hash, InvalidValue> {
        let outside = || InvalidValue("not below a suffix of the database".into());
        let (below, from) = self.split(dn).ok_or_else(outside)?;
        let down = |parent, rdn: &Rdn| self.expect_own(hash(parent, &rdn.normal));
        dn.rdns[..below].iter().rev().try_fold(from, down)
    }

    /// Returns the normalised names of all nodes from the suffix down to the DN, both included; `None` if the DN is not
    /// below a suffix.
    pub fn steps(&self, dn: &Dn) -> Option<Vec<Vec<u8>>> {
        let (below, _) = self.split(dn)?;
        let suffix = Dn { rdns: dn.rdns[below..].to_vec() }.normal();
        let nodes = dn.rdns[..below].iter().rev().map(|rdn| rdn.normal.clone());
        Some(std::iter::once(suffix).filter(|suffix| !suffix.is_empty()).chain(nodes).collect())
    }

    /// Returns the number of RDNs below the suffix, and the hash of the suffix; `None` if the DN is not below a suffix.
    fn split(&self, dn: &Dn) -> Option<(usize, Hash)> {
        let mut rest = dn.normal();
        for below in 0..=dn.rdns.len() {
            if rest.is_empty() {
                return self.own.iter().any(Vec::is_empty).then_some((below, ROOT));
            }
            if self.is_suffix(&rest) {
                return Some((below, hash(ROOT, &rest)));
            }
            let own = dn.rdns[below].normal.len();
            rest.drain(..(own + 1).min(rest.len()));
        }
        None
    }
}

/// A worker's cache of parents: most entries have the same parent as the previous entry.
pub struct ParentCache<'a> {
    schema: &'a Schema,
    suffixes: &'a Suffixes,
    /// Hashes of the parents' DNs, by the DNs as LDIF spells them.
    hashes: FxHashMap<Box<[u8]>, Hash>,
}

impl<'a> ParentCache<'a> {
    pub fn new(schema: &'a Schema, suffixes: &'a Suffixes) -> Self {
        Self { schema, suffixes, hashes: FxHashMap::default() }
    }

    /// Returns an entry's hashes and RDN, and the text of its parent's DN. The memory of `spare` is reused.
    pub fn place<'t>(&mut self, text: &'t [u8], spare: Rdn) -> Result<(HashedDn, &'t [u8]), InvalidValue> {
        let elsewhere = "the entry of the empty DN must be the first, in a database of that suffix";
        let (leaf, above) = schema::split_leaf(text).ok_or_else(|| InvalidValue(elsewhere.into()))?;
        if let Some(&parent) = self.hashes.get(above) {
            let rdn = self.schema.rdn_in(leaf, spare)?;
            self.suffixes.require_room(&rdn.normal, &rdn.pretty)?;
            let hash = self.suffixes.expect_own(hash(parent, &rdn.normal))?;
            return Ok((HashedDn { hash, parent, rdn, suffix: None }, above));
        }
        self.uncached(text, above).map(|place| (place, above))
    }

    fn uncached(&mut self, text: &[u8], above: &[u8]) -> Result<HashedDn, InvalidValue> {
        let mut dn = self.schema.dn(text)?;
        let normal = dn.normal();
        if self.suffixes.is_suffix(&normal) {
            let (hash, pretty) = (hash(ROOT, &normal), dn.pretty());
            self.suffixes.require_room(&normal, &pretty)?;
            return Ok(HashedDn { hash, parent: ROOT, rdn: dn.rdns.swap_remove(0), suffix: Some((normal, pretty)) });
        }
        let rdn = dn.rdns.remove(0);
        let parent = self.suffixes.hash_of(&dn)?;
        self.suffixes.require_room(&rdn.normal, &rdn.pretty)?;
        if self.hashes.len() >= PARENTS {
            self.hashes.clear();
        }
        self.hashes.insert(above.into(), parent);
        let hash = self.suffixes.expect_own(hash(parent, &rdn.normal))?;
        Ok(HashedDn { hash, parent, rdn, suffix: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::fixture::schema;

    #[test]
    fn entries_of_another_database_are_refused_with_and_without_the_cache() {
        let own = ["dc=com".to_owned()];
        let suffixes = Suffixes::read(schema(), &own, &["dc=b,dc=com".to_owned()], 511).unwrap();
        let mut naming = ParentCache::new(schema(), &suffixes);
        let mut place = |dn: &str| naming.place(dn.as_bytes(), Rdn::default()).map(|(place, _)| place.hash);
        for own in ["dc=a,dc=com", "dc=com"] {
            for other in ["dc=b,dc=com", "dc=x,dc=b,dc=com", "dc=B,dc=com", "dc=org", ""] {
                assert!(place(own).is_ok() && place(other).is_err(), "{own} {other}");
            }
        }
    }
}
