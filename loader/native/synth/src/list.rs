//! Lists of values to choose from: a file has one value per line, with an optional weight after a tab.

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
    /// End offset of each value.
    ends: Vec<u32>,
    weights: Option<Alias>,
    sum: u64,
}

impl List {
    /// Reads a file with one UTF-8 value per line; empty lines are ignored.
    pub fn read(name: &str, path: &Path) -> Result<Self, Problem> {
        let text = text(path)?;
        Self::parse(name, path, &text)
    }

    /// Parses the lines of `text`; `path` is for messages.
    pub fn parse(name: &str, path: &Path, text: &str) -> Result<Self, Problem> {
        let mut reading = Reading::default();
        for (number, line) in text.lines().enumerate() {
            let spot = Location::new(u32::try_from(number + 1).unwrap_or(u32::MAX), 0);
            reading.line(line).map_err(|message| Problem::new(path, spot, message))?;
        }
        reading.list(name).ok_or_else(|| Problem::new(path, Location::default(), "it is empty"))
    }

    /// Builds a list of values with equal weights, or None if there are no values.
    pub fn of(name: &str, values: &[&str]) -> Option<Self> {
        let mut reading = Reading::default();
        for value in values {
            reading.add(value, 1.0);
        }
        reading.list(name)
    }

    /// Builds a list of values with weights, which must be above 0.
    pub fn weighted(name: &str, values: &[(&str, f64)]) -> Option<Self> {
        let mut reading = Reading { weighted: true, ..Reading::default() };
        for (value, weight) in values {
            reading.add(value, *weight);
        }
        reading.list(name)
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

    /// The value that the random bits select.
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

#[derive(Default)]
struct Reading {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    weights: Vec<f64>,
    weighted: bool,
}

impl Reading {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if line.trim().is_empty() {
            return Ok(());
        }
        let Some((value, weight)) = line.split_once('\t') else {
            self.add(line, 1.0);
            return Ok(());
        };
        let number: f64 = weight.trim().parse().unwrap_or(f64::NAN);
        if !number.is_finite() || number <= 0.0 {
            return Err(format!("{:?} is not a weight above 0", weight.trim()));
        }
        self.weighted = true;
        self.add(value, number);
        Ok(())
    }

    #[allow(clippy::cast_possible_truncation, reason = "LARGEST is less than 2^32")]
    fn add(&mut self, value: &str, weight: f64) {
        self.bytes.extend_from_slice(value.as_bytes());
        self.ends.push(self.bytes.len() as u32);
        self.weights.push(weight);
    }

    fn list(self, name: &str) -> Option<List> {
        let weights = if self.weighted { Some(Alias::new(&self.weights)?) } else { None };
        if self.ends.is_empty() {
            return None;
        }
        let mut hash = xxhash_rust::xxh3::Xxh3::new();
        hash.update(&self.bytes);
        self.ends.iter().for_each(|end| hash.update(&end.to_le_bytes()));
        if self.weighted {
            self.weights.iter().for_each(|weight| hash.update(&weight.to_le_bytes()));
        }
        let sum = hash.digest();
        Some(List { name: name.to_owned(), bytes: self.bytes, ends: self.ends, weights, sum })
    }
}

/// Reads a list file.
pub fn text(path: &Path) -> Result<String, Problem> {
    read_text(path, LARGEST, "a list")
}

/// Finds the file of a list in the first directory that has it.
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
    fn a_value_with_more_weight_is_likelier() {
        let list = parsed("often\t99\nseldom\t1\n").unwrap();
        let stream = crate::draw::Stream::new(1, &["w"]);
        let often = (0..10_000).filter(|&number| list.pick(stream.at(number)) == b"often").count();
        assert!((9_800..10_000).contains(&often), "{often}");
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
