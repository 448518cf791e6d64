//! Ancestors that a consumer does not get: it makes entries of object class `glue` in their places
//! (`syncrepl_add_glue_ancestors`).

use ldif::write;
use rustc_hash::FxHashMap;

use crate::place::parent;

/// What the entries below want to stand on; memory: the parents, not the entries.
#[derive(Debug)]
pub struct Glue {
    /// Normalised.
    suffix: Vec<u8>,
    wanted: FxHashMap<Vec<u8>, Wanted>,
}

#[derive(Debug)]
struct Wanted {
    dn: Vec<u8>,
    /// entryCSN of the first entry that needs it.
    csn: Option<Vec<u8>>,
}

impl Glue {
    pub fn new(suffix: Vec<u8>) -> Self {
        Self { suffix, wanted: FxHashMap::default() }
    }

    /// Notes the ancestors of an entry, up to the suffix. `normal`, `dn`: its name normalised, and as text.
    pub fn above(&mut self, normal: &[u8], dn: &[u8], csn: Option<&[u8]>) {
        let (mut normal, mut dn) = (normal, dn);
        while normal != self.suffix && !normal.is_empty() {
            (normal, dn) =
                (parent(normal), schema::split_leaf(dn).map_or(&b""[..], |(_, above)| above));
            if self.wanted.contains_key(normal) {
                return;
            }
            let wanted =
                Wanted { dn: dn.trim_ascii_start().to_vec(), csn: csn.map(<[u8]>::to_vec) };
            self.wanted.insert(normal.to_vec(), wanted);
        }
    }

    /// The entry is there.
    pub fn present(&mut self, normal: &[u8]) {
        self.wanted.remove(normal);
    }

    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// The entries to be made, parents first: their names normalised, and their LDIF without a blank line.
    pub fn entries(&self) -> Vec<(&[u8], Vec<u8>, Option<&[u8]>)> {
        let mut all: Vec<_> = self.wanted.iter().collect();
        all.sort_unstable_by_key(|(normal, _)| (normal.len(), *normal));
        all.into_iter()
            .map(|(normal, wanted)| (normal.as_slice(), record(&wanted.dn), wanted.csn.as_deref()))
            .collect()
    }
}

fn record(dn: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    write::line(&mut text, b"dn", dn);
    text.extend_from_slice(b"objectClass: top\nobjectClass: glue\nstructuralObjectClass: glue\n");
    text
}
