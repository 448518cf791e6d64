//! Short lists of attribute types, and the names that mean the same attribute type.

use ldif::Field;
use rustc_hash::FxHashMap;

use crate::fingerprint::hash_text;

/// Attribute types; comparisons ignore case and options.
#[derive(Debug, Clone, Default)]
pub struct Names(Vec<Vec<u8>>);

impl Names {
    pub fn new<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> Self {
        Self(names.into_iter().map(|name| name.as_ref().as_bytes().to_vec()).collect())
    }

    pub fn has_field(&self, field: &Field<'_>) -> bool {
        self.has_name(field.base())
    }

    pub fn has_name(&self, base: &[u8]) -> bool {
        self.0.iter().any(|name| name.eq_ignore_ascii_case(base))
    }
}

/// Maps each name of an attribute type, in lower case, to one of its names.
#[derive(Debug, Clone, Default)]
pub struct Aliases(FxHashMap<Vec<u8>, Vec<u8>>);

impl Aliases {
    pub fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        let lower = |text: String| text.to_ascii_lowercase().into_bytes();
        Self(pairs.into_iter().map(|(name, main)| (lower(name), lower(main))).collect())
    }

    /// Returns a hash of the field's description that is equal for all names of its attribute type. `own` is the hash
    /// of the description as it is.
    pub fn hash(&self, field: &Field<'_>, own: u64) -> u64 {
        if self.0.is_empty() {
            return own;
        }
        let base = field.base();
        let Some(main) = self.0.get(&base.to_ascii_lowercase()) else { return own };
        let text = [main.as_slice(), &field.description()[base.len()..]].concat();
        hash_text(&text, &mut Vec::new())
    }
}
