//! Names for a complaint about an entry that two shards have.

use codec::dn2i::{self, Node};

use crate::{Code, Error};

pub fn duplicate(dn: String) -> Error {
    let message = "an entry of that name is there already".to_owned();
    Error { dn: Some(dn), ..Error::new(Code::Duplicate, message) }
}

/// Those of the shared entries, with their parents.
#[derive(Debug, Default)]
pub struct Names(Vec<(Vec<u8>, u64)>);

impl Names {
    /// Entries come by ascending ID.
    pub fn note(&mut self, id: u64, record: &[u8]) {
        let named = dn2i::read(record).map(|node| (node.pretty.to_vec(), node.id));
        self.0.push(named.filter(|_| id > 0).unwrap_or_default());
    }

    /// Of a child of a shared entry.
    pub fn dn(&self, parent: u64, child: &Node<'_>) -> String {
        let (mut dn, mut above) = (child.pretty.to_vec(), parent);
        while let Some((rdn, next)) =
            self.0.get(usize::try_from(above).unwrap_or(usize::MAX)).filter(|_| above > 0)
        {
            dn.push(b',');
            dn.extend_from_slice(rdn);
            above = *next.min(&(above - 1));
        }
        String::from_utf8_lossy(&dn).into_owned()
    }
}
