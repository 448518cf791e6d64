//! A mistake, before the file it stands in is known to it.

use std::path::Path;

use synth::problem::{Problem, Spot};

#[derive(Debug)]
pub struct Wrong {
    pub spot: Spot,
    pub message: String,
}

pub type Result<T> = std::result::Result<T, Wrong>;

impl Wrong {
    pub fn new(spot: Spot, message: impl Into<String>) -> Self {
        Self { spot, message: message.into() }
    }
}

impl Wrong {
    pub fn in_file(self, path: &Path) -> Problem {
        Problem::new(path, self.spot, self.message)
    }
}

/// A thing, and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Located<T> {
    pub value: T,
    pub spot: Spot,
}
