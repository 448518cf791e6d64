//! A template file as branches and templates: blocks of lines, each ended by an empty one.

use std::collections::HashMap;
use std::sync::Arc;

use synth::problem::suggestion;

use super::defines::Defines;
use super::error::{Located, Result, TemplateError};
use super::lines::{Line, lines};
use super::syntax::{Branch, File, Subordinate, Template, ValueLine};
use super::value;

/// What a makeldif file may begin with, once comments are over.
const BEGINNINGS: [&str; 4] = ["define ", "branch:", "template:", "include "];
/// The define that tells where a tree lies, by a custom that all templates keep.
pub const SUFFIX: &str = "suffix";
/// Lines before the first attribute of a template.
const EXTENDS: &str = "extends:";
const RDN: &str = "rdnattr:";
const SUBORDINATE: &str = "subordinatetemplate:";

/// Whether this is no TOML, as far as the first line tells: a table or a key there.
pub fn looks_like(text: &str) -> bool {
    let mut lines = text.trim_start_matches('\u{feff}').lines();
    let Some(first) = lines.find(|line| !line.trim().is_empty() && !line.starts_with('#')) else {
        return false;
    };
    let key = first.split('=').next().unwrap_or_default().trim();
    let is_key = first.contains('=')
        && key.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.\"".contains(letter));
    !is_key && !first.starts_with('[')
}

pub fn parse(text: &str, mut defines: Defines) -> Result<File> {
    let reason = "a line that begins with a space goes on the one before it, and there is none";
    let lines = lines(text.trim_start_matches('\u{feff}'))
        .map_err(|spot| TemplateError::new(spot, reason))?;
    let mut reader = Reader::default();
    let mut rest = lines.iter();
    while let Some(line) = rest.next() {
        if is_nothing(line) {
            continue;
        }
        let line = defines.substitute(line)?.into_owned();
        if let Some(at) = after(&line.text, "define ") {
            if defines.add(&line, at)? == SUFFIX {
                reader.file.suffix = defines.get(SUFFIX).map(ToOwned::to_owned);
            }
        } else {
            let body: Vec<&Line> = rest.by_ref().take_while(|line| !line.text.is_empty()).collect();
            let body = body.into_iter().filter(|line| !is_nothing(line));
            let body: Result<Vec<Line>> = body
                .map(|line| defines.substitute(line).map(std::borrow::Cow::into_owned))
                .collect();
            reader.block(&line, &body?)?;
        }
    }
    Ok(reader.file)
}

fn is_nothing(line: &Line) -> bool {
    line.text.is_empty() || line.text.starts_with('#')
}

/// Where the text behind a word (in lower case) begins, if the line begins with that word.
fn after(line: &str, word: &str) -> Option<usize> {
    let begins = line.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    begins.then(|| line.len() - line[word.len()..].trim_start().len())
}

/// The text from `at` on, without spaces at its end, and its spot.
fn tail(line: &Line, at: usize) -> Located<String> {
    Located { value: line.text[at..].trim_end().to_owned(), spot: line.spot(at) }
}

#[derive(Default)]
struct Reader {
    file: File,
    /// Templates by their names in lower case.
    places: HashMap<String, usize>,
}

impl Reader {
    fn block(&mut self, first: &Line, body: &[Line]) -> Result<()> {
        if let Some(at) = after(&first.text, "branch:") {
            let branch = Self::branch(tail(first, at), body)?;
            self.file.branches.push(branch);
            return Ok(());
        }
        if let Some(at) = after(&first.text, "template:") {
            return self.template(tail(first, at), body);
        }
        if after(&first.text, "include ").is_some() {
            let message = "include: tags written in Java cannot be loaded here";
            return Err(TemplateError::new(first.spot(0), message));
        }
        let word = first.text.split([' ', ':']).next().unwrap_or_default();
        let hint = suggestion(word, ["define", "branch:", "template:"]);
        let message = format!("here a define, a branch: or a template: begins, not {word:?}{hint}");
        Err(TemplateError::new(first.spot(0), message))
    }

    fn branch(dn: Located<String>, body: &[Line]) -> Result<Branch> {
        let mut branch = Branch { dn, below: Vec::new(), lines: Vec::new() };
        for line in body {
            if let Some(at) = after(&line.text, SUBORDINATE) {
                branch.below.push(subordinate(line, at)?);
            } else {
                branch.lines.push(Arc::new(value_line(line)?));
            }
        }
        Ok(branch)
    }

    fn template(&mut self, name: Located<String>, body: &[Line]) -> Result<()> {
        let (mut rdn, mut below, mut lines) = (Vec::new(), Vec::new(), Vec::new());
        let mut own = 0;
        for line in body {
            let header = header(&line.text);
            match header {
                Some((word, _)) if own > 0 => {
                    let message =
                        format!("{word} must stand before the attributes of the template");
                    return Err(TemplateError::new(line.spot(0), message));
                }
                Some((EXTENDS, at)) => lines.clone_from(&self.extended(&tail(line, at))?.lines),
                Some((RDN, at)) => rdn.extend(rdn_attributes(line, at)),
                Some((_, at)) => below.push(subordinate(line, at)?),
                None => {
                    lines.push(Arc::new(value_line(line)?));
                    own += 1;
                }
            }
        }
        self.add(Template { name, rdn, below, lines })
    }

    fn extended(&self, name: &Located<String>) -> Result<&Template> {
        let place = self.places.get(&name.value.to_lowercase());
        place.map(|&place| &self.file.templates[place]).ok_or_else(|| {
            let known = self.file.templates.iter().map(|template| template.name.value.as_str());
            let hint = suggestion(&name.value, known);
            let message = format!("no template named {} before this one{hint}", name.value);
            TemplateError::new(name.spot, message)
        })
    }

    fn add(&mut self, template: Template) -> Result<()> {
        let Located { value, spot } = &template.name;
        if value.is_empty() {
            return Err(TemplateError::new(*spot, "a template needs a name"));
        }
        if self.places.insert(value.to_lowercase(), self.file.templates.len()).is_some() {
            return Err(TemplateError::new(
                *spot,
                format!("there is a template named {value} already"),
            ));
        }
        self.file.templates.push(template);
        Ok(())
    }
}

fn header(line: &str) -> Option<(&'static str, usize)> {
    [EXTENDS, RDN, SUBORDINATE].into_iter().find_map(|word| Some((word, after(line, word)?)))
}

/// Attributes with plus signs between them.
fn rdn_attributes(line: &Line, at: usize) -> Vec<Located<String>> {
    let names = line.text[at..].split('+').scan(at, |start, name| {
        let spot = line.spot(*start + name.len() - name.trim_start().len());
        *start += name.len() + 1;
        Some(Located { value: super::names::canonical(name.trim()).to_string(), spot })
    });
    names.filter(|name| !name.value.is_empty()).collect()
}

/// `NAME` or `NAME:COUNT`; below 0 is without end, too.
fn subordinate(line: &Line, at: usize) -> Result<Subordinate> {
    let Some((name, count)) = line.text[at..].split_once(':') else {
        return Ok(Subordinate { template: tail(line, at), count: None });
    };
    let place = line.spot(at + name.len() + 1);
    let count: i64 = count.trim().parse().map_err(|_| {
        TemplateError::new(place, format!("{:?} is not a number of entries", count.trim()))
    })?;
    let template = Located { value: name.trim_end().to_owned(), spot: line.spot(at) };
    Ok(Subordinate { template, count: u64::try_from(count).ok() })
}

fn value_line(line: &Line) -> Result<ValueLine> {
    let begins = |word| after(&line.text, word).is_some();
    if BEGINNINGS.into_iter().any(begins) {
        return Err(TemplateError::new(line.spot(0), "an empty line must stand before this one"));
    }
    value::parse(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<File> {
        parse(text, Defines::default())
    }

    fn told(text: &str) -> String {
        let wrong = parsed(text).unwrap_err();
        format!("{}:{} {}", wrong.spot.line, wrong.spot.column, wrong.message)
    }

    #[test]
    fn blocks_are_branches_and_templates() {
        let file = parsed(
            "# top\ndefine n=3\n\nBranch: dc=x\n# in between\ndescription: a\nsubordinateTemplate: P:[n]\n\n\
             template: p\nrdnAttr: UID + cn\nsubordinateTemplate: q\nuid: a\ncn: b\n\ntemplate: q\nextends: P\nsn: c\n",
        )
        .unwrap();
        let branch = &file.branches[0];
        assert_eq!((branch.dn.value.as_str(), branch.lines.len()), ("dc=x", 1));
        assert_eq!(
            (branch.below[0].template.value.as_str(), branch.below[0].count),
            ("P", Some(3))
        );
        let [p, q] = &file.templates[..] else { panic!() };
        assert_eq!(p.rdn.iter().map(|name| name.value.as_str()).collect::<Vec<_>>(), ["uid", "cn"]);
        assert_eq!(p.rdn[1].spot, synth::Location::new(10, 16));
        assert_eq!((p.below[0].count, p.lines.len(), q.lines.len()), (None, 2, 3));
        assert!(Arc::ptr_eq(&p.lines[0], &q.lines[0]));
    }

    #[test]
    fn mistakes_have_their_spot() {
        let cases = [
            (
                "brunch: dc=x\n",
                "1:1 here a define, a branch: or a template: begins, not \"brunch\" (did you mean branch:?)",
            ),
            (
                "branch: dc=x\nsubordinateTemplate: p:many\n",
                "2:24 \"many\" is not a number of entries",
            ),
            ("branch: dc=x\ntemplate: p\n", "2:1 an empty line must stand before this one"),
            (
                "template: p\ncn: a\nrdnAttr: cn\n",
                "3:1 rdnattr: must stand before the attributes of the template",
            ),
            ("template: p\n\ntemplate: P\n", "3:11 there is a template named P already"),
            (
                "template: per\n\ntemplate: q\nextends: pers\n",
                "4:10 no template named pers before this one (did you mean per?)",
            ),
            (
                " a\n",
                "1:1 a line that begins with a space goes on the one before it, and there is none",
            ),
            ("define x\n", "1:8 write: define NAME=VALUE"),
            ("include a.b\n", "1:1 include: tags written in Java cannot be loaded here"),
        ];
        for (text, message) in cases {
            assert_eq!(told(text), message);
        }
    }

    #[test]
    fn what_looks_like_it_is_told_from_toml() {
        assert!(looks_like("# c\n\ndefine a=1\n"));
        assert!(looks_like("Branch: dc=x\n"));
        assert!(looks_like("brunch: dc=x\n"));
        assert!(!looks_like("# c\ndescription = \"x\"\nbranches = []\n"));
        assert!(!looks_like("[lists]\n"));
        assert!(!looks_like(""));
    }
}
