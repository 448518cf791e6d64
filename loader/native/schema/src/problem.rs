//! What is wrong with a schema.

use std::fmt;

/// A definition that cannot be read, or that names something which is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem(String);

impl Problem {
    /// What is wrong with the definition that reads `text`.
    pub(crate) fn of(text: &str, what: &str) -> Self {
        let shown: String = text.chars().take(120).collect();
        let more = if shown.len() < text.len() { "..." } else { "" };
        Self(format!("schema definition \"{shown}{more}\": {what}"))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Problem {}
