//! Reads templates in TOML, whose texts have tags in braces; `docs/templates.md` is the manual.
//!
//! A template is untrusted input: every error is a [`Problem`] with its line and column.

mod learned;
mod parts;
mod tags;

use std::fmt::Display;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_spanned::Spanned;
use toml::de::{DeTable, DeValue};

use crate::model::{self, Template};
use crate::problem::{Location, Problem, read_text, suggestion};
use crate::tags::time;

pub use tags::is_tag;

/// Maximum size of a template, in bytes.
pub const LARGEST: u64 = 16 << 20;
pub const SUFFIX: &str = "dc=example,dc=com";

/// Reads the template from the file `path`, or from `text` if the content of the file was converted to TOML. Lists are
/// looked up beside the file, then in the directories `lists`.
pub fn read(path: &Path, text: Option<String>, lists: &[PathBuf]) -> Result<Template, Problem> {
    let text = text.map_or_else(|| read_text(path, LARGEST, "a template"), Ok)?;
    let beside = path.parent().map(Path::to_path_buf);
    let directories: Vec<PathBuf> = beside.into_iter().chain(lists.iter().cloned()).collect();
    parse(path, &text, &directories)
}

/// Parses a template. `path` is used in messages only. Lists are looked up in the directories.
pub fn parse(path: &Path, text: &str, directories: &[PathBuf]) -> Result<Template, Problem> {
    let document = Document { path, text, lines: &Lines::of(text) };
    let whole = DeTable::parse(text)
        .map_err(|error| document.wrong(error.span().map_or(0, |span| span.start), error.message()))?;
    let (span, entries) = (whole.span(), whole.get_ref());
    let root = Table { document, what: "the template".to_owned(), span, entries };
    root.only(&["description", "suffix", "branches", "lists", "kinds", "operational", "words", "shapes", "letters"])?;
    let lists = parts::lists(&root, directories)?;
    let branches = parts::branches(&root, &lists)?;
    let learned = learned::read(&root)?;
    let kinds = parts::kinds(&root, &branches, &lists, &learned)?;
    Ok(Template {
        path: path.to_path_buf(),
        description: root.text("description")?.unwrap_or_default().to_owned(),
        suffix: root.text("suffix")?.unwrap_or(SUFFIX).to_owned(),
        operational: operational(&root)?,
        lists,
        branches,
        kinds,
        learned,
    })
}

fn operational(root: &Table<'_, '_>) -> Result<model::Operational, Problem> {
    let Some(table) = root.table("operational")? else { return Ok(model::Operational::default()) };
    table.only(&["from", "to"])?;
    match (table.time("from")?, table.time("to")?) {
        (Some(from), None) => Ok(model::Operational::Load { from }),
        (Some(from), Some(to)) if from <= to => Ok(model::Operational::Years { from, to }),
        (Some(_), Some(_)) => Err(table.wrong("to", "must not be before from")),
        (None, _) => Err(table.wrong("from", "from is missing")),
    }
}

/// The text of a template, with the offsets that turn a byte offset into a location.
#[derive(Debug, Clone, Copy)]
struct Document<'d> {
    path: &'d Path,
    text: &'d str,
    lines: &'d Lines,
}

/// The start offsets of all lines, so that a location is found without reading the text again.
#[derive(Debug)]
struct Lines {
    starts: Vec<usize>,
    is_ascii: bool,
}

/// In a text with non-ASCII characters, columns are counted only in this many bytes of a line, to bound the time.
const LONG: usize = 10_000;

impl Lines {
    fn of(text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect();
        Self { starts, is_ascii: text.is_ascii() }
    }

    /// Returns the location of a byte. The column is 0 if it is not counted.
    fn spot(&self, text: &str, byte: usize) -> Location {
        let line = self.starts.partition_point(|&start| start <= byte);
        let start = self.starts[line - 1];
        let column = match text.get(start..byte) {
            _ if self.is_ascii => byte - start + 1,
            Some(before) if before.len() < LONG => before.chars().count() + 1,
            _ => 0,
        };
        let count = |number| u32::try_from(number).unwrap_or(u32::MAX);
        Location { line: count(line), column: count(column) }
    }
}

type Value<'d> = Spanned<DeValue<'d>>;

impl Document<'_> {
    fn wrong(self, byte: usize, message: impl Into<String>) -> Problem {
        Problem::new(self.path, self.spot(byte), message)
    }

    fn spot(self, byte: usize) -> Location {
        self.lines.spot(self.text, byte.min(self.text.len()))
    }

    /// Returns an error with the location of the offset `wrong.at` in the string `text`, which is quoted at `span`. If
    /// the string has escapes, the location is that of the quotation mark.
    fn wrong_within(self, span: &Range<usize>, text: &str, wrong: tags::TextError) -> Problem {
        let quoted = self.text.get(span.clone()).unwrap_or_default();
        let at = quoted.find(text).map_or(span.start, |start| span.start + start + wrong.at);
        self.wrong(at, wrong.message)
    }
}

/// A table of the template. If a value has the wrong type, the methods return an error with the value's location.
#[derive(Debug, Clone)]
struct Table<'t, 'd> {
    document: Document<'d>,
    /// The table's name in messages.
    what: String,
    span: Range<usize>,
    entries: &'t DeTable<'d>,
}

impl<'t, 'd> Table<'t, 'd> {
    /// Returns an error unless the value is a table.
    fn of(document: Document<'d>, what: &str, value: &'t Value<'d>) -> Result<Self, Problem> {
        let span = value.span();
        match value.get_ref().as_table() {
            Some(entries) => Ok(Self { document, what: what.to_owned(), span, entries }),
            None => Err(document.wrong(span.start, format!("{what} must be a table"))),
        }
    }

    fn get(&self, key: &str) -> Option<&'t Value<'d>> {
        self.entries.get(key)
    }

    /// Returns an error located at the value of `key`, or at the table if it has no such key.
    fn wrong(&self, key: &str, message: impl Display) -> Problem {
        match self.get(key) {
            Some(value) => self.document.wrong(value.span().start, format!("{key}: {message}")),
            None => self.document.wrong(self.span.start, format!("{}: {message}", self.what)),
        }
    }

    fn spot(&self) -> Location {
        self.document.spot(self.span.start)
    }

    /// Returns an error if the table has a key that is not in `known`.
    fn only(&self, known: &[&str]) -> Result<(), Problem> {
        for (key, _) in self.entries {
            let name: &str = key.get_ref();
            if !known.contains(&name) {
                let hint = suggestion(name, known.iter().copied());
                let message = format!("unknown key {name} in {}{hint}", self.what);
                return Err(self.document.wrong(key.span().start, message));
            }
        }
        Ok(())
    }

    /// Converts the value of `key`. If `read` returns None, returns an error with `message`.
    fn read<T>(
        &self,
        key: &str,
        message: &str,
        read: impl FnOnce(&'t DeValue<'d>) -> Option<T>,
    ) -> Result<Option<T>, Problem> {
        let Some(value) = self.get(key) else { return Ok(None) };
        read(value.get_ref()).map(Some).ok_or_else(|| self.wrong(key, message))
    }

    fn text(&self, key: &str) -> Result<Option<&'t str>, Problem> {
        self.read(key, "must be a text in quotes", DeValue::as_str)
    }

    fn required(&self, key: &str) -> Result<&'t str, Problem> {
        self.text(key)?.ok_or_else(|| self.wrong(key, format!("{key} is missing")))
    }

    fn table(&self, key: &str) -> Result<Option<Self>, Problem> {
        self.get(key).map(|value| Self::of(self.document, key, value)).transpose()
    }

    /// Returns the values of the array at `key`. Any other value counts as an array of one value.
    fn all(&self, key: &str) -> Vec<&'t Value<'d>> {
        self.get(key).map(listed).unwrap_or_default()
    }

    fn number(&self, key: &str) -> Result<Option<u64>, Problem> {
        self.read(key, "must be a whole number from 0 on", integer)
    }

    /// Reads a number from 0 to 1.
    fn share(&self, key: &str) -> Result<Option<f64>, Problem> {
        let share = |value| float(value).filter(|number| (0.0..=1.0).contains(number));
        self.read(key, "must be a number from 0 to 1", share)
    }

    /// Reads a time in seconds since 1970, from a TOML date or from digits in quotes.
    fn time(&self, key: &str) -> Result<Option<i64>, Problem> {
        self.read(key, "must be a date such as 2015-12-31", |value| match value {
            DeValue::String(text) => time::parse(text),
            DeValue::Datetime(date) => {
                let date = date.to_string();
                time::parse(&date.chars().filter(char::is_ascii_digit).collect::<String>())
            }
            _ => None,
        })
    }
}

/// Returns the values of an array. Any other value counts as an array of one value.
fn listed<'t, 'd>(value: &'t Value<'d>) -> Vec<&'t Value<'d>> {
    value.get_ref().as_array().map_or_else(|| vec![value], |values| values.iter().collect())
}

fn integer(value: &DeValue<'_>) -> Option<u64> {
    let number = value.as_integer()?;
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

fn float(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Float(number) => number.as_str().parse().ok().filter(|number: &f64| number.is_finite()),
        DeValue::Integer(number) => number.as_str().parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_has_a_line_and_a_column() {
        // A column beyond `LONG` bytes is reported as 0.
        let long = "\u{f6}".repeat(LONG);
        for (text, byte, line, column) in
            [("a\nb\u{f6} c", 6, 2, 4), ("a\n\nbc", 4, 3, 2), ("", 0, 1, 1), ("a\n", 2, 2, 1), (&long, 2 * LONG, 1, 0)]
        {
            assert_eq!(Lines::of(text).spot(text, byte), Location { line, column });
        }
    }
}
