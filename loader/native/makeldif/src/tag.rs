//! Tags and their arguments: `<NAME:ARGUMENT:...>`, and `{ATTRIBUTE:LENGTH}`.

use std::str::FromStr;

use synth::problem::{Location, suggestion};

use super::error::{Result, TemplateError};
use super::names::canonical;
use super::random;
use super::syntax::{Access, Piece};

const NAMES: [&str; 17] = [
    "AttributeValue",
    "DN",
    "File",
    "First",
    "GUID",
    "IfAbsent",
    "IfPresent",
    "Last",
    "List",
    "ParentDN",
    "Presence",
    "Random",
    "RDN",
    "Sequential",
    "StaticText",
    "_DN",
    "_ParentDN",
];

/// The arguments of a tag; empty ones do not count.
pub struct Arguments<'a> {
    tag: &'a str,
    pub spot: Location,
    pub all: Vec<&'a str>,
}

/// What stands between `<` and `>`.
pub fn parse(text: &str, spot: Location) -> Result<Piece> {
    let mut parts = text.split(':').filter(|part| !part.is_empty()).map(str::trim);
    let tag = parts.next().ok_or_else(|| {
        TemplateError::new(spot, "a tag needs a name; write \\< for the character")
    })?;
    let arguments = Arguments { tag, spot, all: parts.collect() };
    match tag.to_ascii_lowercase().as_str() {
        "attributevalue" => attribute(&arguments),
        "dn" => dn(&arguments, ','),
        "_dn" => dn(&arguments, '_'),
        "parentdn" => arguments.none(Piece::ParentDn { separator: ',' }),
        "_parentdn" => arguments.none(Piece::ParentDn { separator: '_' }),
        "rdn" => arguments.none(Piece::Rdn),
        "first" => arguments.none(Piece::FirstName),
        "last" => arguments.none(Piece::LastName),
        "guid" => arguments.none(Piece::Guid),
        "file" => file(&arguments),
        "ifpresent" => condition(&arguments, false),
        "ifabsent" => condition(&arguments, true),
        "presence" => presence(&arguments),
        "list" => list(&arguments),
        "random" => random::parse(&arguments).map(Piece::Random),
        "sequential" => sequential(&arguments),
        "statictext" => arguments.between(1, 1).map(|()| Piece::Text(arguments.all[0].to_owned())),
        _ => Err(TemplateError::new(
            spot,
            format!("no tag is named {tag}{}", suggestion(tag, NAMES)),
        )),
    }
}

/// What stands between `{` and `}`.
pub fn reference(text: &str, spot: Location) -> Result<Piece> {
    let all = text.split(':').filter(|part| !part.is_empty()).collect();
    attribute(&Arguments { tag: "{}", spot, all })
}

impl Arguments<'_> {
    pub fn between(&self, least: usize, most: usize) -> Result<()> {
        if (least..=most).contains(&self.all.len()) {
            return Ok(());
        }
        let wanted = if least == most { most.to_string() } else { format!("{least} to {most}") };
        self.wrong(format!("{} takes {wanted} arguments, and has {}", self.tag, self.all.len()))
    }

    fn none(&self, piece: Piece) -> Result<Piece> {
        self.between(0, 0).map(|()| piece)
    }

    /// The argument at a place, which must be there, as a number between two.
    pub fn number<N>(&self, at: usize, low: N, high: N) -> Result<N>
    where
        N: Copy + FromStr + PartialOrd + std::fmt::Display,
    {
        let text = self.all[at];
        let number = text.parse().ok().filter(|number| low <= *number && *number <= high);
        number.ok_or_else(|| {
            let message = format!("{}: {text:?} is not a number from {low} to {high}", self.tag);
            TemplateError::new(self.spot, message)
        })
    }

    pub fn wrong<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(TemplateError::new(self.spot, message))
    }
}

fn attribute(arguments: &Arguments) -> Result<Piece> {
    arguments.between(1, 2)?;
    let characters =
        if arguments.all.len() == 2 { arguments.number(1, 0, usize::MAX)? } else { 0 };
    Ok(Piece::Attribute { name: canonical(arguments.all[0]).to_string(), characters })
}

fn dn(arguments: &Arguments, separator: char) -> Result<Piece> {
    arguments.between(0, 1)?;
    let parts = if arguments.all.is_empty() { 0 } else { arguments.number(0, -1000, 1000)? };
    Ok(Piece::Dn { parts, separator })
}

fn file(arguments: &Arguments) -> Result<Piece> {
    arguments.between(1, 2)?;
    let order = match arguments.all.get(1).map(|order| order.to_ascii_lowercase()).as_deref() {
        None | Some("random") => Access::Random,
        Some("sequential") => Access::Sequential,
        Some(other) => {
            return arguments.wrong(format!("File: write random or sequential, not {other:?}"));
        }
    };
    Ok(Piece::File { path: arguments.all[0].to_owned(), order })
}

fn condition(arguments: &Arguments, absent: bool) -> Result<Piece> {
    arguments.between(1, 2)?;
    let attribute = canonical(arguments.all[0]).to_string();
    Ok(Piece::If { attribute, equals: arguments.all.get(1).map(ToString::to_string), absent })
}

fn presence(arguments: &Arguments) -> Result<Piece> {
    arguments.between(1, 1)?;
    arguments.number(0, 0, 100).map(Piece::Presence)
}

/// A weight stands behind a semicolon; what is no number there belongs to the value.
fn list(arguments: &Arguments) -> Result<Piece> {
    arguments.between(1, usize::MAX)?;
    let weighted = |value: &&str| match value
        .rsplit_once(';')
        .map(|(value, weight)| (value, weight.parse()))
    {
        Some((value, Ok(weight))) => (value.to_owned(), weight),
        _ => ((*value).to_owned(), 1),
    };
    let values: Vec<(String, u32)> = arguments.all.iter().map(weighted).collect();
    if values.iter().all(|(_, weight)| *weight == 0) {
        return arguments.wrong("List: all weights are 0");
    }
    Ok(Piece::List(values))
}

/// The second argument is to begin anew below each entry. makeldif takes it and never does.
fn sequential(arguments: &Arguments) -> Result<Piece> {
    arguments.between(0, 2)?;
    let start = match arguments.all.first() {
        Some(_) => arguments.number(0, i64::from(i32::MIN), i64::from(i32::MAX))?,
        None => 0,
    };
    if let Some(reset) = arguments.all.get(1).filter(|reset| !is_boolean(reset)) {
        return arguments.wrong(format!("Sequential: write true or false, not {reset:?}"));
    }
    Ok(Piece::Sequential { start })
}

fn is_boolean(text: &str) -> bool {
    ["true", "false"].iter().any(|word| word.eq_ignore_ascii_case(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Piece> {
        parse(text, Location::new(1, 1))
    }

    fn owned(text: &str) -> String {
        text.to_owned()
    }

    #[test]
    fn arguments_stand_between_colons() {
        let cases = [
            ("AttributeValue:CN:3", Piece::Attribute { name: owned("cn"), characters: 3 }),
            ("dn:-2", Piece::Dn { parts: -2, separator: ',' }),
            ("_DN", Piece::Dn { parts: 0, separator: '_' }),
            (
                "File: a.txt :SEQUENTIAL",
                Piece::File { path: owned("a.txt"), order: Access::Sequential },
            ),
            ("file::b", Piece::File { path: owned("b"), order: Access::Random }),
            (
                "ifPresent:mail:a b",
                Piece::If { attribute: owned("mail"), equals: Some(owned("a b")), absent: false },
            ),
            ("IFABSENT:sn", Piece::If { attribute: owned("sn"), equals: None, absent: true }),
            ("presence:7", Piece::Presence(7)),
            (
                "list:a;2:b,c:d;x",
                Piece::List(vec![(owned("a"), 2), (owned("b,c"), 1), (owned("d;x"), 1)]),
            ),
            ("sequential", Piece::Sequential { start: 0 }),
            ("Sequential:-5:True", Piece::Sequential { start: -5 }),
            ("StaticText:x", Piece::Text(owned("x"))),
        ];
        for (text, expected) in cases {
            assert_eq!(parsed(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn mistakes_are_told() {
        let cases = [
            ("sequentail:1", "no tag is named sequentail (did you mean Sequential?)"),
            ("", "a tag needs a name; write \\< for the character"),
            ("presence:101", "presence: \"101\" is not a number from 0 to 100"),
            ("guid:1", "guid takes 0 arguments, and has 1"),
            ("file", "file takes 1 to 2 arguments, and has 0"),
            ("file:a:b", "File: write random or sequential, not \"b\""),
            ("list:a;0", "List: all weights are 0"),
            ("sequential:1:maybe", "Sequential: write true or false, not \"maybe\""),
        ];
        for (text, message) in cases {
            assert_eq!(parsed(text).unwrap_err().message, message);
        }
    }
}
