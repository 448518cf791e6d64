//! `define NAME=VALUE`, and `[NAME]` anywhere behind it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use synth::problem::suggestion;

use super::error::{Result, TemplateError};
use super::lines::Line;

/// What a line may become in bytes: defines made of defines could double it each time.
const LONGEST: usize = 1 << 20;

/// Names in lower case: makeldif does not tell upper from lower.
#[derive(Debug, Default)]
pub struct Defines(BTreeMap<String, String>);

impl Defines {
    /// Those of the command line, which win over those of the file.
    pub fn given(values: &BTreeMap<String, String>) -> Self {
        Self(values.iter().map(|(name, value)| (name.to_lowercase(), value.clone())).collect())
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A `define` line, substituted already; `at` is where its name begins. The first one of a name counts. Returns
    /// the name.
    pub fn add(&mut self, line: &Line, at: usize) -> Result<String> {
        let (name, value) = line.text[at..]
            .split_once('=')
            .filter(|(name, _)| !name.trim().is_empty())
            .ok_or_else(|| TemplateError::new(line.spot(at), "write: define NAME=VALUE"))?;
        let name = name.trim().to_lowercase();
        self.0.entry(name.clone()).or_insert_with(|| value.to_owned());
        Ok(name)
    }

    /// The line with every `[NAME]` replaced.
    ///
    /// As makeldif does it: from the last `]` leftwards, each with the nearest `[` before it; a bracket behind a
    /// backslash is none, and values are not looked at again. What cannot be a name stays as it is.
    pub fn substitute<'a>(&self, line: &'a Line) -> Result<Cow<'a, Line>> {
        let mut changes: Vec<(Range<usize>, &str)> = Vec::new();
        let mut rest = line.text.as_str();
        while let Some((open, close)) = last_pair(rest) {
            let name = &rest[open + 1..close];
            if !is_escaped(rest, open) {
                if let Some(value) = self.0.get(&name.to_lowercase()) {
                    changes.push((open..close + 1, value));
                } else if is_name(name) {
                    return Err(TemplateError::new(line.spot(open), self.unknown(name)));
                }
            }
            rest = &rest[..open];
        }
        if changes.is_empty() {
            return Ok(Cow::Borrowed(line));
        }
        changes.reverse();
        let added: usize = changes.iter().map(|(_, value)| value.len()).sum();
        if line.text.len() + added > LONGEST {
            let message =
                format!("with what its defines bring in the line has more than {LONGEST} bytes");
            return Err(TemplateError::new(line.spot(0), message));
        }
        Ok(Cow::Owned(line.replaced(&changes)))
    }

    fn unknown(&self, name: &str) -> String {
        let hint = suggestion(name, self.0.keys().map(String::as_str));
        format!("no define named {name}{hint}; write \\[{name}\\] for the text itself")
    }
}

/// The last `]` that is not escaped, and the nearest `[` before it, escaped or not.
fn last_pair(text: &str) -> Option<(usize, usize)> {
    let mut close = text.rfind(']')?;
    while is_escaped(text, close) {
        close = text[..close].rfind(']')?;
    }
    Some((text[..close].rfind('[')?, close))
}

fn is_escaped(text: &str, at: usize) -> bool {
    text[..at].ends_with('\\')
}

fn is_name(name: &str) -> bool {
    name.starts_with(char::is_alphabetic)
        && name.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.'))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::lines::lines;

    fn defined(text: &str) -> (Defines, Line) {
        let mut lines = lines(text).unwrap();
        let last = lines.pop().unwrap();
        let mut defines = Defines::default();
        for line in &lines {
            let line = defines.substitute(line).unwrap().into_owned();
            defines.add(&line, "define ".len()).unwrap();
        }
        (defines, last)
    }

    fn substituted(text: &str) -> Result<String> {
        let (defines, line) = defined(text);
        defines.substitute(&line).map(|line| line.text.clone())
    }

    #[test]
    fn names_become_values() {
        let text = "define a=1\ndefine B =[A]2\ndefine a=9\nx[b][a]y [not a name] [";
        assert_eq!(substituted(text).unwrap(), "x121y [not a name] [");
        assert_eq!(substituted("define a=\nx[A]").unwrap(), "x");
    }

    #[test]
    fn a_backslash_keeps_a_bracket() {
        assert_eq!(
            substituted("define a=1\n\\[a] \\[[a]\\] [a\\]").unwrap(),
            "\\[a] \\[1\\] [a\\]"
        );
        assert_eq!(substituted("a]").unwrap(), "a]");
    }

    #[test]
    fn an_unknown_name_is_told() {
        let wrong = substituted("define users=1\nx [usres]").unwrap_err();
        assert_eq!(wrong.spot, synth::Location::new(2, 3));
        assert!(wrong.message.contains("did you mean users?"), "{}", wrong.message);
    }

    #[test]
    fn defines_cannot_swell_for_ever() {
        let mut text = "define a0=0123456789\n".to_owned();
        for n in 1..40 {
            let _ = writeln!(text, "define a{n}=[a{}][a{}]", n - 1, n - 1);
        }
        let mut defines = Defines::default();
        let found = lines(&text).unwrap();
        let wrong = found.iter().find_map(|line| {
            let line = match defines.substitute(line) {
                Ok(line) => line.into_owned(),
                Err(wrong) => return Some(wrong),
            };
            defines.add(&line, "define ".len()).err()
        });
        assert!(wrong.unwrap().message.contains("bytes"));
    }
}
