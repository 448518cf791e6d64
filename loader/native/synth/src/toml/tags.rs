//! Parses texts with tags: `{tag}` or `{tag:argument}`; `{{` and `}}` are literal braces.

use std::str::FromStr;

use crate::distribution::{Distribution, Range};
use crate::model::{Class, Pick, Piece, Tag, Text};
use crate::problem::suggestion;
use crate::tags::{Slots, time};

/// A text with more literals and tags than this is refused.
const MOST_PIECES: usize = 10_000;
/// Default memory of an Argon2 hash in KiB. A million hashes take a minute; with a realistic memory, a thousand times
/// as long.
const KIB: u32 = 64;

/// The names of the tags, and their syntax for error messages.
const FORMS: [(&str, &str); 25] = [
    ("number", "{number}, {number:WIDTH} or {number:WIDTH:START}"),
    ("digits", "{digits:WIDTH}"),
    ("hex", "{hex:WIDTH}"),
    ("unique", "{unique:WIDTH} or {unique:hex:WIDTH}"),
    ("between", "{between:LOW:HIGH} or {between:LOW:HIGH:WIDTH}"),
    ("zipf", "{zipf:LOW:HIGH:EXPONENT}"),
    ("normal", "{normal:LOW:HIGH:MEAN:DEVIATION}"),
    ("histogram", "{histogram:NUMBER=WEIGHT,LOW-HIGH=WEIGHT,...}"),
    ("pick", "{pick:LIST}"),
    ("base64", "{base64:LIST}"),
    ("uuid", "{uuid}"),
    ("ascii", "{ascii:NAME}"),
    ("ssha", "{ssha:NAME}"),
    ("argon2", "{argon2:NAME} or {argon2:NAME:KIB:PASSES}"),
    ("suffix", "{suffix}"),
    ("dn", "{dn:KIND}, or with {dn:KIND:zipf:EXPONENT} which of them"),
    ("parentdn", "{parentdn}"),
    ("time", "{time:FROM:TO}, times as 20261231 or 20261231235959"),
    ("bytes", "{bytes:COUNT} or {bytes:LOW:HIGH}"),
    ("certificate", "{certificate:LOW:HIGH}"),
    ("word", "{word:VOCABULARY}"),
    ("newword", "{newword:VOCABULARY}"),
    ("words", "{words:VOCABULARY:COUNT} with a count such as between:3:9"),
    ("shape", "{shape:NAME}"),
    ("chars", "{chars:CLASS:COUNT} with a class of hex, alpha, mixed or base64"),
];

/// Whether `name` is the name of a tag; a value must not have such a name.
pub fn is_tag(name: &str) -> bool {
    FORMS.iter().any(|(known, _)| *known == name)
}

/// An error message, and its byte offset in the text.
#[derive(Debug, PartialEq, Eq)]
pub struct TextError {
    pub at: usize,
    pub message: String,
}

/// Parses a text. The text may refer to `values`. An error that `check` returns for a tag is reported at the tag.
pub fn parse(text: &str, values: &Slots, check: impl Fn(&Tag) -> Result<(), String>) -> Result<Text, TextError> {
    let mut pieces: Text = Vec::new();
    let mut at = 0;
    while at < text.len() {
        if pieces.len() > MOST_PIECES {
            return Err(TextError { at, message: format!("more than {MOST_PIECES} pieces") });
        }
        let rest = &text[at..];
        let literal = rest.find(['{', '}']).unwrap_or(rest.len());
        push(&mut pieces, &rest[..literal]);
        at += literal;
        match &rest[literal..] {
            "" => {}
            brace if brace.starts_with("{{") || brace.starts_with("}}") => {
                push(&mut pieces, &brace[..1]);
                at += 2;
            }
            braced => {
                let problem = |message| TextError { at, message };
                let unmatched = || problem("braces do not match (write {{ for a brace)".to_owned());
                let inside = inside(braced).ok_or_else(unmatched)?;
                let tag = tag(inside, values).map_err(problem)?;
                check(&tag).map_err(|reason| problem(format!("{{{inside}}}: {reason}")))?;
                pieces.push(Piece::Tag(tag));
                at += inside.len() + 2;
            }
        }
    }
    Ok(pieces)
}

/// Returns the text between the brace that begins `text` and the next brace, which must be a closing brace.
fn inside(text: &str) -> Option<&str> {
    let text = text.strip_prefix('{')?;
    let end = text.find(['{', '}'])?;
    text[end..].starts_with('}').then(|| &text[..end])
}

/// Appends a literal. If the last piece is a literal, extends this piece.
fn push(pieces: &mut Text, literal: &str) {
    match pieces.last_mut() {
        Some(Piece::Literal(bytes)) => bytes.extend_from_slice(literal.as_bytes()),
        _ if literal.is_empty() => {}
        _ => pieces.push(Piece::Literal(literal.as_bytes().to_vec())),
    }
}

/// Parses the text between two braces.
fn tag(inside: &str, values: &Slots) -> Result<Tag, String> {
    let (name, argument) = inside.split_once(':').unwrap_or((inside, ""));
    let words: Vec<&str> = if argument.is_empty() { Vec::new() } else { argument.split(':').collect() };
    if let Some((_, form)) = FORMS.iter().find(|(known, _)| *known == name) {
        return spelled(name, &words).ok_or_else(|| format!("{{{inside}}}: write {form}"));
    }
    if !values.contains_key(name) {
        let mut known: Vec<&str> = values.keys().map(String::as_str).collect();
        known.sort_unstable();
        known.extend(FORMS.map(|(known, _)| known));
        return Err(format!("unknown tag {{{name}}}{}", suggestion(name, known)));
    }
    let value = name.to_owned();
    match words[..] {
        [] => Some(Tag::Value { name: value }),
        [characters] => number(characters).map(|characters| Tag::Start { name: value, characters }),
        _ => None,
    }
    .ok_or_else(|| format!("{{{inside}}}: write {{{name}}} or {{{name}:CHARACTERS}}"))
}

fn number<T: FromStr>(word: &str) -> Option<T> {
    word.parse().ok()
}

/// Returns the tag with this name and these arguments, or None if the arguments are wrong.
fn spelled(name: &str, words: &[&str]) -> Option<Tag> {
    let text = |word: &str| word.to_owned();
    Some(match (name, words) {
        ("number", []) => Tag::Number { start: 0, width: 0 },
        ("number", [width]) => Tag::Number { start: 0, width: number(width)? },
        ("number", [width, start]) => Tag::Number { start: number(start)?, width: number(width)? },
        ("digits", [width]) => Tag::Digits(number(width)?),
        ("hex", [width]) => Tag::Hex(number(width)?),
        ("unique", ["hex", width]) => Tag::Unique { base: 16, width: number(width)? },
        ("unique", [width]) => Tag::Unique { base: 10, width: number(width)? },
        ("between" | "zipf" | "normal" | "histogram", [rest @ .., last]) => match parameters(name, words) {
            Some(distribution) => Tag::Drawn { distribution, width: 0 },
            None => Tag::Drawn { distribution: parameters(name, rest)?, width: number(last)? },
        },
        ("pick", [list]) => Tag::Pick { list: text(list) },
        ("base64", [list]) => Tag::Base64 { list: text(list) },
        ("uuid", []) => Tag::Uuid,
        ("ascii", [name]) => Tag::Ascii { name: text(name) },
        ("ssha", [name]) => Tag::Ssha { name: text(name) },
        ("argon2", [name]) => Tag::Argon2 { name: text(name), memory: KIB, passes: 1 },
        ("argon2", [name, memory, passes]) => {
            Tag::Argon2 { name: text(name), memory: number(memory)?, passes: number(passes)? }
        }
        ("suffix", []) => Tag::Suffix,
        ("dn", [kind]) => Tag::Dn { kind: text(kind), pick: Pick::Uniform },
        ("dn", [kind, way @ ..]) => Tag::Dn { kind: text(kind), pick: pick(&way.join(":"))? },
        ("parentdn", []) => Tag::ParentDn,
        ("time", [from, to]) => Tag::Time { from: time::parse(from)?, to: time::parse(to)? },
        ("bytes", [count]) => Tag::Bytes { low: number(count)?, high: number(count)? },
        ("bytes", [low, high]) => Tag::Bytes { low: number(low)?, high: number(high)? },
        ("certificate", [count]) => Tag::Certificate { low: number(count)?, high: number(count)? },
        ("certificate", [low, high]) => Tag::Certificate { low: number(low)?, high: number(high)? },
        ("word", [vocabulary]) => Tag::Word { vocabulary: text(vocabulary) },
        ("newword", [vocabulary]) => Tag::NewWord { vocabulary: text(vocabulary) },
        ("words", [vocabulary, count @ ..]) => {
            let count = distribution(&count.join(":")).ok()?;
            Tag::Words { vocabulary: text(vocabulary), count }
        }
        ("shape", [name]) => Tag::Shape { name: text(name) },
        ("chars", [class, length @ ..]) => {
            let class = match *class {
                "hex" => Class::Hex,
                "alpha" => Class::Alpha,
                "mixed" => Class::Mixed,
                "base64" => Class::Base64,
                _ => return None,
            };
            Tag::Chars { class, length: distribution(&length.join(":")).ok()? }
        }
        _ => return None,
    })
}

/// Parses and checks a distribution: `3`, `between:1:3`, and so on.
pub fn distribution(text: &str) -> Result<Distribution, String> {
    let (name, argument) = text.split_once(':').unwrap_or((text, ""));
    let words: Vec<&str> = argument.split(':').collect();
    let fixed = text.parse().ok().map(Distribution::Fixed);
    let distribution = fixed.or_else(|| parameters(name, &words)).ok_or_else(|| {
        "write a number, between:LOW:HIGH, zipf:LOW:HIGH:EXPONENT, normal:LOW:HIGH:MEAN:DEVIATION or \
         histogram:NUMBER=WEIGHT,LOW-HIGH=WEIGHT,..."
            .to_owned()
    })?;
    distribution.drawer()?;
    Ok(distribution)
}

/// Parses a choice of parents: `each`, `uniform`, `normal` or `zipf:EXPONENT`.
pub fn pick(text: &str) -> Option<Pick> {
    match text.split_once(':') {
        None if text == "each" => Some(Pick::Each),
        None if text == "uniform" => Some(Pick::Uniform),
        None if text == "normal" => Some(Pick::Normal),
        Some(("zipf", exponent)) => Some(Pick::Zipf(exponent.parse().ok()?)),
        _ => None,
    }
}

/// Returns the distribution with this name and these parameters, without checking them.
fn parameters(name: &str, words: &[&str]) -> Option<Distribution> {
    Some(match (name, words) {
        ("between", [low, high]) => Distribution::Between { low: number(low)?, high: number(high)? },
        ("zipf", [low, high, exponent]) => {
            Distribution::Zipf { low: number(low)?, high: number(high)?, exponent: number(exponent)? }
        }
        ("normal", [low, high, mean, deviation]) => {
            let (mean, deviation) = (number(mean)?, number(deviation)?);
            Distribution::Normal { low: number(low)?, high: number(high)?, mean, deviation }
        }
        ("histogram", [ranges]) => Distribution::Histogram(ranges.split(',').map(range).collect::<Option<_>>()?),
        _ => return None,
    })
}

fn range(text: &str) -> Option<Range> {
    let (numbers, weight) = text.split_once('=')?;
    let (low, high) = numbers.split_once('-').unwrap_or((numbers, numbers));
    let (low, high) = (number(low.trim())?, number(high.trim())?);
    Some(Range { low, high, weight: number(weight.trim())? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tags::SlotFacts;

    fn parsed(text: &str) -> Result<Text, TextError> {
        parse(text, &Slots::from([("name".to_owned(), SlotFacts::default())]), |_| Ok(()))
    }

    #[test]
    fn mistakes_are_reported_with_their_location() {
        assert_eq!(parsed("").unwrap(), [], "an empty text is none");
        for (text, at, reason) in [
            ("ab {digits:3", 3, "braces do not match"),
            ("digits:3}", 8, "braces do not match"),
            ("{{{name", 2, "braces do not match"),
            ("{a{b}}", 0, "braces do not match"),
            ("x{nam}", 1, "unknown tag {nam} (did you mean name?)"),
            ("{name:x}", 0, "write {name} or {name:CHARACTERS}"),
            ("{}", 0, "unknown tag {}"),
        ] {
            let wrong = parsed(text).unwrap_err();
            assert_eq!(wrong.at, at, "{text}");
            assert!(wrong.message.contains(reason), "{text}: {}", wrong.message);
        }
    }
}
