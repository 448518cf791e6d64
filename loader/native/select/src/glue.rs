//! Glue entries: a consumer adds them for ancestors that it does not receive (`syncrepl_add_glue_ancestors`).

use ldif::write;
use rustc_hash::FxHashMap;

use crate::place::{ConsumerDn, parent};

/// Collects the ancestors of all entries. Memory grows with the number of parents, not of entries.
pub struct Glue {
    /// The suffix in normal form.
    suffix: Vec<u8>,
    wanted: FxHashMap<Vec<u8>, GlueEntry>,
}

pub struct GlueEntry {
    dn: Vec<u8>,
    /// entryCSN of the first selected entry below the glue entry.
    pub csn: Option<Vec<u8>>,
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

    /// Records that the consumer has the entry, so that no glue entry is needed.
    pub fn present(&mut self, normal: &[u8]) {
        self.wanted.remove(normal);
    }

    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Returns the glue entries with their normalized DNs, parents first.
    pub fn entries(&self) -> Vec<(&Vec<u8>, &GlueEntry)> {
        let mut entries: Vec<_> = self.wanted.iter().collect();
        entries.sort_unstable_by_key(|(normal, _)| (normal.len(), *normal));
        entries
    }
}

impl GlueEntry {
    /// Returns the entry as LDIF, without the blank line.
    pub fn record(&self) -> Vec<u8> {
        let mut text = Vec::new();
        write::line(&mut text, b"dn", &self.dn);
        text.extend_from_slice(b"objectClass: top\nobjectClass: glue\nstructuralObjectClass: glue\n");
        if let Some(csn) = &self.csn {
            write::line(&mut text, b"entryCSN", csn);
        }
        text
    }
}
