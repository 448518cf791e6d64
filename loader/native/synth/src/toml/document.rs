//! What TOML makes of a template, asked for by key; every answer that is not as asked is a problem with its place.

use std::ops::Range;
use std::path::Path;

use serde_spanned::Spanned;
use toml::de::{DeTable, DeValue};

use crate::problem::{Location, Problem, suggestion};
use crate::tags::time;

/// The text of a template, for places.
#[derive(Debug, Clone, Copy)]
pub struct Document<'d> {
    pub path: &'d Path,
    pub text: &'d str,
    pub lines: &'d Lines,
}

/// Where the lines of a text begin, so that places are found without reading it again for each.
#[derive(Debug)]
pub struct Lines {
    starts: Vec<usize>,
    is_ascii: bool,
}

/// Bytes of a line whose characters are counted.
const LONG: usize = 10_000;

impl Lines {
    pub fn of(text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect();
        Self { starts, is_ascii: text.is_ascii() }
    }

    /// The place of a byte of that text; without a column far along a line that is not ASCII.
    fn spot(&self, text: &str, byte: usize) -> Location {
        let line = self.starts.partition_point(|&start| start <= byte);
        let start = self.starts[line - 1];
        let column = match text.get(start..byte) {
            _ if self.is_ascii => byte - start + 1,
            Some(before) if before.len() < LONG => before.chars().count() + 1,
            _ => 0,
        };
        let count = |number| u32::try_from(number).unwrap_or(u32::MAX);
        Location::new(count(line), count(column))
    }
}

pub type Value<'d> = Spanned<DeValue<'d>>;

impl<'d> Document<'d> {
    pub fn parse(self) -> Result<Spanned<DeTable<'d>>, Problem> {
        DeTable::parse(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            self.wrong(at, error.message())
        })
    }

    pub fn wrong(self, byte: usize, message: impl Into<String>) -> Problem {
        Problem::new(self.path, self.spot(byte), message)
    }

    pub fn spot(self, byte: usize) -> Location {
        self.lines.spot(self.text, byte.min(self.text.len()))
    }

    /// Where byte `offset` of a text stands whose quotes are at `span`; the quotes when it is not as it is written.
    pub fn within(self, span: &Range<usize>, text: &str, offset: usize) -> usize {
        let written = self.text.get(span.clone()).unwrap_or_default();
        written.find(text).map_or(span.start, |start| span.start + start + offset)
    }
}

/// A table of the template.
#[derive(Debug, Clone)]
pub struct Table<'t, 'd> {
    pub document: Document<'d>,
    /// What it is, for messages.
    what: String,
    pub span: Range<usize>,
    pub entries: &'t DeTable<'d>,
}

impl<'t, 'd> Table<'t, 'd> {
    pub fn new(document: Document<'d>, what: &str, table: &'t Spanned<DeTable<'d>>) -> Self {
        Self { document, what: what.to_owned(), span: table.span(), entries: table.get_ref() }
    }

    /// A value that is a table.
    pub fn of(document: Document<'d>, what: &str, value: &'t Value<'d>) -> Result<Self, Problem> {
        match value.get_ref() {
            DeValue::Table(entries) => {
                Ok(Self { document, what: what.to_owned(), span: value.span(), entries })
            }
            _ => Err(document.wrong(value.span().start, format!("{what} must be a table"))),
        }
    }

    pub fn get(&self, key: &str) -> Option<&'t Value<'d>> {
        self.entries.get(key)
    }

    /// A problem at the value of `key`, or at the table when it has none.
    pub fn wrong(&self, key: &str, message: impl std::fmt::Display) -> Problem {
        match self.get(key) {
            Some(value) => self.document.wrong(value.span().start, format!("{key}: {message}")),
            None => self.document.wrong(self.span.start, format!("{}: {message}", self.what)),
        }
    }

    pub fn spot(&self) -> Location {
        self.document.spot(self.span.start)
    }

    /// Keys that mean nothing are mistakes, not remarks.
    pub fn only(&self, known: &[&str]) -> Result<(), Problem> {
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

    pub fn text(&self, key: &str) -> Result<Option<&'t str>, Problem> {
        match self.get(key).map(Spanned::get_ref) {
            None => Ok(None),
            Some(DeValue::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(key, "must be a text in quotes")),
        }
    }

    pub fn required(&self, key: &str) -> Result<&'t str, Problem> {
        self.text(key)?.ok_or_else(|| self.wrong(key, format!("{key} is missing")))
    }

    pub fn table(&self, key: &str) -> Result<Option<Self>, Problem> {
        self.get(key).map(|value| Self::of(self.document, key, value)).transpose()
    }

    /// The values of a list; one that is no list stands for a list of itself.
    pub fn all(&self, key: &str) -> Vec<&'t Value<'d>> {
        self.get(key).map(listed).unwrap_or_default()
    }

    pub fn number(&self, key: &str) -> Result<Option<u64>, Problem> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = integer(value.get_ref());
        number.map(Some).ok_or_else(|| self.wrong(key, "must be a whole number from 0 on"))
    }

    /// A share from 0 to 1.
    pub fn share(&self, key: &str) -> Result<Option<f64>, Problem> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = float(value.get_ref()).filter(|number| (0.0..=1.0).contains(number));
        number.map(Some).ok_or_else(|| self.wrong(key, "must be a number from 0 to 1"))
    }

    /// Seconds since 1970: a TOML date, or digits in quotes.
    pub fn time(&self, key: &str) -> Result<Option<i64>, Problem> {
        let digits = match self.get(key).map(Spanned::get_ref) {
            None => return Ok(None),
            Some(DeValue::String(text)) => text.to_string(),
            Some(DeValue::Datetime(date)) => {
                date.to_string().chars().filter(char::is_ascii_digit).collect()
            }
            Some(_) => String::new(),
        };
        let seconds = time::parse(&digits);
        seconds.map(Some).ok_or_else(|| self.wrong(key, "must be a date such as 2015-12-31"))
    }
}

/// The values of a list, or the one value alone.
pub fn listed<'t, 'd>(value: &'t Value<'d>) -> Vec<&'t Value<'d>> {
    match value.get_ref() {
        DeValue::Array(values) => values.iter().collect(),
        _ => vec![value],
    }
}

pub fn integer(value: &DeValue<'_>) -> Option<u64> {
    let DeValue::Integer(number) = value else { return None };
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

pub fn float(value: &DeValue<'_>) -> Option<f64> {
    match value {
        DeValue::Float(number) => {
            number.as_str().parse().ok().filter(|number: &f64| number.is_finite())
        }
        DeValue::Integer(number) => number.as_str().parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(text: &str, byte: usize) -> Location {
        Lines::of(text).spot(text, byte)
    }

    #[test]
    fn a_byte_has_a_line_and_a_column() {
        assert_eq!(spot("a\nb\u{f6} c", 6), Location::new(2, 4));
        assert_eq!(spot("a\n\nbc", 4), Location::new(3, 2));
        assert_eq!(spot("", 0), Location::new(1, 1));
        assert_eq!(spot("a\n", 2), Location::new(2, 1));
    }

    #[test]
    fn far_along_a_long_line_there_is_no_column() {
        let text = "\u{f6}".repeat(LONG);
        assert_eq!(spot(&text, 2 * LONG), Location::new(1, 0));
    }
}
