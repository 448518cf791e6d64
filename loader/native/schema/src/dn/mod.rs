//! Parses DNs, and converts them to slapd's pretty and normal form (`libraries/libldap/getdn.c`, `servers/slapd/dn.c`).

mod forms;
mod key;
mod parse;
mod write;

use crate::{AttributeId, Result, Schema, refuse};

pub use forms::DnForm;
pub use key::dn_key;
pub use parse::split_leaf;

/// Maximum length of a DN or RDN in bytes. slapd refuses longer DNs (`SLAP_LDAPDN_MAXLEN`).
const MAX_LENGTH: usize = 8192;

/// A DN, beginning with the entry's own RDN. The empty DN has no RDNs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dn {
    pub rdns: Vec<Rdn>,
}

/// An RDN in both of slapd's forms, escaped, without separators.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rdn {
    pub pretty: Vec<u8>,
    pub normal: Vec<u8>,
    /// The AVAs, sorted by the names of their attribute types.
    pub avas: Vec<Ava>,
}

/// An assertion `type=value` in an RDN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ava {
    pub attribute: AttributeId,
    /// The pretty value without escapes. slapadd adds this value to an entry that does not have it.
    pub value: Vec<u8>,
}

impl Dn {
    pub fn pretty(&self) -> Vec<u8> {
        self.join(|rdn| &rdn.pretty)
    }

    pub fn normal(&self) -> Vec<u8> {
        self.join(|rdn| &rdn.normal)
    }

    fn join(&self, part: impl Fn(&Rdn) -> &Vec<u8>) -> Vec<u8> {
        self.rdns.iter().map(|rdn| part(rdn).as_slice()).collect::<Vec<_>>().join(&b',')
    }
}

impl Schema {
    /// Parses an entry's DN, which may be empty.
    pub fn dn(&self, text: &[u8]) -> Result<Dn> {
        within_limit(text)?;
        let rdns = parse::dn(text)?.into_iter().map(|rdn| self.both_forms(rdn));
        Ok(Dn { rdns: rdns.collect::<Result<_, _>>()? })
    }

    /// Parses a single RDN, such as the first result of [`split_leaf`].
    pub fn rdn(&self, text: &[u8]) -> Result<Rdn> {
        self.rdn_in(text, Rdn::default())
    }

    /// Parses a single RDN, and reuses the memory of `spare`.
    pub fn rdn_in(&self, text: &[u8], mut spare: Rdn) -> Result<Rdn> {
        within_limit(text)?;
        match self.plain_rdn(text, &mut spare) {
            Some(()) => Ok(spare),
            None => self.both_forms(parse::rdn(text)?),
        }
    }
}

fn within_limit(text: &[u8]) -> Result<()> {
    if text.len() > MAX_LENGTH { refuse("longer than 8192 bytes") } else { Ok(()) }
}
