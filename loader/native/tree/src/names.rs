//! A short list of attribute names to look out for.

use ldif::Field;

/// Base names, compared without regard to case and options.
#[derive(Debug, Clone, Default)]
pub struct Names(Vec<Vec<u8>>);

impl Names {
    pub fn new<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> Self {
        Self(names.into_iter().map(|name| name.as_ref().as_bytes().to_vec()).collect())
    }

    pub fn hold(&self, field: &Field<'_>) -> bool {
        self.contain(field.base())
    }

    pub fn contain(&self, base: &[u8]) -> bool {
        self.0.iter().any(|name| name.eq_ignore_ascii_case(base))
    }
}
