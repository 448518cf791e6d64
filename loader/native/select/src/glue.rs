//! Ancestors that a consumer does not receive: instead it adds entries of object class `glue`
//! (`syncrepl_add_glue_ancestors`).

use ldif::write;
use rustc_hash::FxHashMap;

use crate::place::{ConsumerDn, parent};

/// Collects the ancestors of all entries; its memory grows with the number of parents, not of entries.
pub struct Glue {
    /// The suffix in normal form.
    suffix: Vec<u8>,
    wanted: FxHashMap<Vec<u8>, GlueEntry>,
}

struct GlueEntry {
    dn: Vec<u8>,
    /// entryCSN of the first selected entry below this one.
    csn: Option<Vec<u8>>,
}

impl Glue {
    pub fn new(suffix: Vec<u8>) -> Self {
        Self { suffix, wanted: FxHashMap::default() }
    }

    /// Adds the ancestors of an entry up to the suffix. `csn` is the entry's entryCSN.
    pub fn above(&mut self, placed: &ConsumerDn, csn: Option<&[u8]>) {
        let (mut normal, mut dn) = (placed.normal.as_slice(), placed.dn.as_slice());
        while normal != self.suffix && !normal.is_empty() {
            (normal, dn) = (parent(normal), schema::split_leaf(dn).map_or(&b""[..], |(_, above)| above));
            if self.wanted.contains_key(normal) {
                return;
            }
            let wanted = GlueEntry { dn: dn.trim_ascii_start().to_vec(), csn: csn.map(<[u8]>::to_vec) };
            self.wanted.insert(normal.to_vec(), wanted);
        }
    }

    /// Records that the entry exists, so that it needs no glue entry.
    pub fn present(&mut self, normal: &[u8]) {
        self.wanted.remove(normal);
    }

    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Returns the glue entries, parents first.
    pub fn entries(&self) -> Vec<Missing<'_>> {
        let all = self.wanted.iter();
        let mut all: Vec<_> =
            all.map(|(normal, wanted)| Missing { normal, dn: &wanted.dn, csn: wanted.csn.as_deref() }).collect();
        all.sort_unstable_by_key(|one| (one.normal.len(), one.normal));
        all
    }
}

/// An ancestor that exists only as a glue entry.
pub struct Missing<'a> {
    pub normal: &'a [u8],
    dn: &'a [u8],
    pub csn: Option<&'a [u8]>,
}

impl Missing<'_> {
    /// Returns the entry as LDIF, without the blank line.
    pub fn record(&self) -> Vec<u8> {
        let mut text = Vec::new();
        write::line(&mut text, b"dn", self.dn);
        text.extend_from_slice(b"objectClass: top\nobjectClass: glue\nstructuralObjectClass: glue\n");
        if let Some(csn) = self.csn {
            write::line(&mut text, b"entryCSN", csn);
        }
        text
    }
}
