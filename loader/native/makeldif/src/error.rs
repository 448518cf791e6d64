//! A mistake, before the file it stands in is known to it.

use std::path::Path;

use synth::problem::{Location, Problem};

#[derive(Debug)]
pub struct TemplateError {
    pub spot: Location,
    pub message: String,
}

pub type Result<T> = std::result::Result<T, TemplateError>;

impl TemplateError {
    pub fn new(spot: Location, message: impl Into<String>) -> Self {
        Self { spot, message: message.into() }
    }

    pub fn in_file(self, path: &Path) -> Problem {
        Problem::new(path, self.spot, self.message)
    }
}

/// A thing, and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Located<T> {
    pub value: T,
    pub spot: Location,
}
