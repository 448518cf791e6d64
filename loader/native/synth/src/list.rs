//! Lists of values to choose from. A file has one value per line, with an optional weight after a tab.

use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::distribution::{Alias, even};
use crate::problem::{Location, Problem, read_text};

/// Maximum size of a list file, in bytes.
const LARGEST: u64 = 64 << 20;

pub struct List {
    pub name: String,
    bytes: Vec<u8>,
    /// End offset of each value in `bytes`.
    ends: Vec<u32>,
    /// None if all values are equally likely.
    weights: Option<Alias>,
    /// Checksum of the values and the weights.
    sum: u64,
}

impl List {
    /// Reads a file of UTF-8 text. Empty lines are ignored.
    pub fn read(name: &str, path: &Path) -> Result<Self, Problem> {
        Self::parse(name, path, &read_text(path, LARGEST, "a list")?)
    }

    /// Parses the lines of `text`; `path` is for messages.
    fn parse(name: &str, path: &Path, text: &str) -> Result<Self, Problem> {
        let mut values = Vec::new();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let (value, weight) = line.split_once('\t').map_or((line, None), |(value, weight)| (value, Some(weight)));
            let number = weight.map(|weight| weight.trim().parse().unwrap_or(f64::NAN));
            if number.is_some_and(|number| !number.is_finite() || number <= 0.0) {
                let spot = Location { line: u32::try_from(index + 1).unwrap_or(u32::MAX), column: 0 };
                let reason = format!("{:?} is not a weight above 0", weight.unwrap_or_default().trim());
                return Err(Problem::new(path, spot, reason));
            }
            values.push((value, number));
        }
        Self::new(name, &values).ok_or_else(|| Problem::new(path, Location::default(), "it is empty"))
    }

    /// Builds a list of values with their weights. If any value has a weight, the others have the weight 1. Returns
    /// None if there are no values, or if a weight is not above 0.
    #[allow(clippy::cast_possible_truncation, reason = "lists are read from texts of less than 2^32 bytes")]
    pub fn new(name: &str, values: &[(&str, Option<f64>)]) -> Option<Self> {
        let (mut bytes, mut ends, mut sum) = (Vec::new(), Vec::new(), xxhash_rust::xxh3::Xxh3::new());
        for (value, _) in values {
            bytes.extend_from_slice(value.as_bytes());
            ends.push(bytes.len() as u32);
        }
        sum.update(&bytes);
        for end in &ends {
            sum.update(&u32::to_le_bytes(*end));
        }
        let mut weights = None;
        if values.iter().any(|(_, weight)| weight.is_some()) {
            let numbers: Vec<f64> = values.iter().map(|(_, weight)| weight.unwrap_or(1.0)).collect();
            for number in &numbers {
                sum.update(&number.to_le_bytes());
            }
            weights = Some(Alias::new(&numbers)?);
        }
        let (name, sum) = (name.to_owned(), sum.digest());
        (!ends.is_empty()).then_some(Self { name, bytes, ends, weights, sum })
    }

    /// Returns the total size of all values in bytes.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    pub fn count(&self) -> usize {
        self.ends.len()
    }

    pub fn value(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        &self.bytes[start..self.ends[at] as usize]
    }

    /// Returns the value that the random bits select.
    pub fn pick(&self, bits: u64) -> &[u8] {
        self.value(match &self.weights {
            Some(alias) => alias.pick(bits),
            None => even(bits, self.count()),
        })
    }

    /// Decodes the values from base64, keeping their weights.
    pub fn decoded(&self) -> Result<Self, String> {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for value in self.values() {
            STANDARD
                .decode_vec(value, &mut bytes)
                .map_err(|error| format!("list {}: not base64: {error}", self.name))?;
            ends.push(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        }
        let (name, weights) = (self.name.clone(), self.weights.clone());
        Ok(Self { name, bytes, ends, weights, sum: self.sum })
    }

    /// Returns the length of the longest value in bytes.
    pub fn longest(&self) -> u64 {
        self.values().map(<[u8]>::len).max().unwrap_or(0) as u64
    }

    pub fn values(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.count()).map(|at| self.value(at))
    }
}

/// Prints a checksum of the values, so that templates with different lists have different fingerprints.
impl fmt::Debug for List {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "List {{ {}, {:016x} }}", self.name, self.sum)
    }
}

/// Returns the path of the list file `name` in the first directory that contains the file.
pub fn find(name: &str, directories: &[PathBuf]) -> Option<PathBuf> {
    directories.iter().map(|directory| directory.join(name)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<List, String> {
        List::parse("x", Path::new("x.txt"), text).map_err(|problem| problem.to_string())
    }

    #[test]
    fn each_line_is_a_value() {
        let list = parsed("rot\n\ngr\u{fc}n\r\n").unwrap();
        assert_eq!(list.values().collect::<Vec<_>>(), ["rot".as_bytes(), "gr\u{fc}n".as_bytes()]);
    }

    #[test]
    fn values_are_decoded_from_base64() {
        let list = parsed("/w==\n\nYWI=\t2\n").unwrap().decoded().unwrap();
        assert_eq!(list.values().collect::<Vec<_>>(), [&b"\xff"[..], b"ab"]);
        assert!(parsed("x\n").unwrap().decoded().unwrap_err().starts_with("list x: not base64"));
    }

    #[test]
    fn an_error_names_its_line() {
        assert_eq!(parsed("a\nb\tx\n").unwrap_err(), "x.txt: line 2: \"x\" is not a weight above 0");
        assert_eq!(parsed("\n").unwrap_err(), "x.txt: it is empty");
    }
}
