//! Errors in a template, with their location.

use std::fmt;
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;

/// A location in a file. The debug form is constant, because fingerprints are computed from debug forms and must not
/// depend on locations.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Location {
    /// Line number from 1; 0 if unknown.
    pub line: u32,
    /// Column in characters from 1; 0 if unknown.
    pub column: u32,
}

impl fmt::Debug for Location {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Spot")
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub path: PathBuf,
    pub spot: Location,
    pub message: String,
    /// Whether the options of the caller are wrong, not the template.
    pub asked: bool,
}

impl Problem {
    pub fn new(path: impl Into<PathBuf>, spot: Location, message: impl Into<String>) -> Self {
        Self { path: path.into(), spot, message: message.into(), asked: false }
    }

    /// Returns an error about options that do not fit the template.
    pub fn asked(path: impl Into<PathBuf>, message: impl Into<String>) -> Self {
        Self { asked: true, ..Self::new(path, Location::default(), message) }
    }

    /// Returns the error code that programs match.
    pub const fn code(&self) -> &'static str {
        if self.asked { "template.usage" } else { "template.syntax" }
    }

    /// Returns the message. If its location is known, the location comes first.
    pub fn located(&self) -> String {
        match self.spot {
            Location { line: 0, .. } => self.message.clone(),
            Location { line, column: 0 } => format!("line {line}: {}", self.message),
            Location { line, column } => format!("line {line}, column {column}: {}", self.message),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.path.display(), self.located())
    }
}

impl std::error::Error for Problem {}

/// Reads a UTF-8 file of at most `largest` bytes. Error messages call the content `what`.
pub fn read_text(path: &Path, largest: u64, what: &str) -> Result<String, Problem> {
    let read = || -> Result<String, Box<dyn std::error::Error>> {
        let facts = path.metadata()?;
        if !facts.is_file() {
            return Err("not a file".into());
        }
        if facts.len() > largest {
            return Err(format!("{} bytes: {what} may have {largest} at most", facts.len()).into());
        }
        let text = String::from_utf8(std::fs::read(path)?);
        let at = |wrong: FromUtf8Error| wrong.utf8_error().valid_up_to();
        Ok(text.map_err(|wrong| format!("not UTF-8 text (byte {})", at(wrong)))?)
    };
    read().map_err(|reason| Problem::new(path, Location::default(), reason.to_string()))
}

/// Maximum number of names in a suggestion.
const SHOWN: usize = 40;

/// Returns " (did you mean X?)" if the name X in `known` resembles `word`, otherwise a list of `known`.
pub fn suggestion<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let close = known.iter().map(|name| (distance(word, name), *name)).min();
    match close {
        Some((steps, name)) if steps <= 1 + word.chars().count() / 4 => {
            format!(" (did you mean {name}?)")
        }
        _ if known.is_empty() || known.len() > SHOWN => String::new(),
        _ => format!(" (there are: {})", known.join(", ")),
    }
}

/// Returns the edit distance (Levenshtein) of the first 64 characters, ignoring case.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.to_lowercase().chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (line, letter) in a.to_lowercase().chars().take(64).enumerate() {
        let mut corner = row[0];
        row[0] = line + 1;
        for (column, other) in b.iter().enumerate() {
            let change = corner + usize::from(letter != *other);
            corner = row[column + 1];
            row[column + 1] = change.min(corner + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_similar_name_is_suggested() {
        assert_eq!(suggestion("brances", ["branches", "kinds"]), " (did you mean branches?)");
        assert_eq!(suggestion("x", ["branches", "kinds"]), " (there are: branches, kinds)");
        assert_eq!(suggestion("x", []), "");
    }
}
