//! How tags are spelled.

use std::collections::HashMap;

use crate::distribution::{Distribution, Range};
use crate::model::{Class, Pick, Tag};
use crate::problem::suggestion;
use crate::tags::{SlotFacts, time};

/// The values of an entry, by their names.
pub type Values = HashMap<String, SlotFacts>;

type Parse = fn(&[&str]) -> Option<Tag>;

/// Name, how it is written, and what it becomes.
const TABLE: [(&str, &str, Parse); 25] = [
    ("number", "{number}, {number:WIDTH} or {number:WIDTH:START}", number),
    ("digits", "{digits:WIDTH}", |words| Some(Tag::Digits(one(words)?))),
    ("hex", "{hex:WIDTH}", |words| Some(Tag::Hex(one(words)?))),
    ("unique", "{unique:WIDTH} or {unique:hex:WIDTH}", unique),
    ("between", "{between:LOW:HIGH} or {between:LOW:HIGH:WIDTH}", |words| {
        drawn("between", words, 2)
    }),
    ("zipf", "{zipf:LOW:HIGH:EXPONENT}", |words| drawn("zipf", words, 3)),
    ("normal", "{normal:LOW:HIGH:MEAN:DEVIATION}", |words| drawn("normal", words, 4)),
    ("histogram", "{histogram:NUMBER=WEIGHT,LOW-HIGH=WEIGHT,...}", |words| {
        drawn("histogram", words, 1)
    }),
    ("pick", "{pick:LIST}", |words| Some(Tag::Pick { list: name(words)? })),
    ("base64", "{base64:LIST}", |words| Some(Tag::Base64 { list: name(words)? })),
    ("uuid", "{uuid}", |words| words.is_empty().then_some(Tag::Uuid)),
    ("ascii", "{ascii:NAME}", |words| Some(Tag::Ascii { name: name(words)? })),
    ("ssha", "{ssha:NAME}", |words| Some(Tag::Ssha { name: name(words)? })),
    ("argon2", "{argon2:NAME} or {argon2:NAME:KIB:PASSES}", argon2),
    ("suffix", "{suffix}", |words| words.is_empty().then_some(Tag::Suffix)),
    ("dn", "{dn:KIND}, or with {dn:KIND:zipf:EXPONENT} which of them", dn),
    ("parentdn", "{parentdn}", |words| words.is_empty().then_some(Tag::ParentDn)),
    ("time", "{time:FROM:TO}, times as 20261231 or 20261231235959", times),
    ("bytes", "{bytes:COUNT} or {bytes:LOW:HIGH}", bytes),
    ("certificate", "{certificate:LOW:HIGH}", |words| match bytes(words)? {
        Tag::Bytes { low, high } => Some(Tag::Certificate { low, high }),
        _ => None,
    }),
    ("word", "{word:VOCABULARY}", |words| Some(Tag::Word { vocabulary: name(words)? })),
    ("newword", "{newword:VOCABULARY}", |words| Some(Tag::NewWord { vocabulary: name(words)? })),
    ("words", "{words:VOCABULARY:COUNT} with a count such as between:3:9", several),
    ("shape", "{shape:NAME}", |words| Some(Tag::Shape { name: name(words)? })),
    ("chars", "{chars:CLASS:COUNT} with a class of hex, alpha, mixed or base64", chars),
];

/// What no value may be called.
pub const NAMES: [&str; TABLE.len()] = {
    let mut names = [""; TABLE.len()];
    let mut at = 0;
    while at < TABLE.len() {
        names[at] = TABLE[at].0;
        at += 1;
    }
    names
};

/// The tag that stands between two braces.
pub fn parse(inside: &str, values: &Values) -> Result<Tag, String> {
    let (name, argument) = inside.split_once(':').unwrap_or((inside, ""));
    let words: Vec<&str> =
        if argument.is_empty() { Vec::new() } else { argument.split(':').collect() };
    if let Some((_, form, parse)) = TABLE.iter().find(|(known, ..)| *known == name) {
        return parse(&words).ok_or_else(|| format!("{{{inside}}}: write {form}"));
    }
    if !values.contains_key(name) {
        let mut known: Vec<&str> = values.keys().map(String::as_str).collect();
        known.sort_unstable();
        known.extend(NAMES);
        return Err(format!("unknown tag {{{name}}}{}", suggestion(name, known)));
    }
    let name = name.to_owned();
    match words[..] {
        [] => Some(Tag::Value { name: name.clone() }),
        [characters] => {
            characters.parse().ok().map(|characters| Tag::Start { name: name.clone(), characters })
        }
        _ => None,
    }
    .ok_or_else(|| format!("{{{inside}}}: write {{{name}}} or {{{name}:CHARACTERS}}"))
}

/// A number of values or the like: `3`, `between:1:3`, and the other distributions likewise.
pub fn distribution(text: &str) -> Result<Distribution, String> {
    let (name, argument) = text.split_once(':').unwrap_or((text, ""));
    let words: Vec<&str> = argument.split(':').collect();
    let fixed = text.parse().ok().map(Distribution::Fixed);
    let found = fixed.or_else(|| of(name, &words)).ok_or_else(|| {
        "write a number, between:LOW:HIGH, zipf:LOW:HIGH:EXPONENT, normal:LOW:HIGH:MEAN:DEVIATION or \
         histogram:NUMBER=WEIGHT,LOW-HIGH=WEIGHT,..."
            .to_owned()
    })?;
    found.drawer()?;
    Ok(found)
}

/// `each`, `uniform`, `normal` or `zipf:EXPONENT`.
pub fn pick(text: &str) -> Option<Pick> {
    match text.split_once(':') {
        None if text == "each" => Some(Pick::Each),
        None if text == "uniform" => Some(Pick::Uniform),
        None if text == "normal" => Some(Pick::Normal),
        Some(("zipf", exponent)) => Some(Pick::Zipf(exponent.parse().ok()?)),
        _ => None,
    }
}

fn of(name: &str, words: &[&str]) -> Option<Distribution> {
    let number = |at: usize| words.get(at)?.parse::<u64>().ok();
    let real = |at: usize| words.get(at)?.parse::<f64>().ok();
    match (name, words.len()) {
        ("between", 2) => Some(Distribution::Between { low: number(0)?, high: number(1)? }),
        ("zipf", 3) => {
            Some(Distribution::Zipf { low: number(0)?, high: number(1)?, exponent: real(2)? })
        }
        ("normal", 4) => Some(Distribution::Normal {
            low: number(0)?,
            high: number(1)?,
            mean: real(2)?,
            deviation: real(3)?,
        }),
        ("histogram", 1) => {
            let ranges = words[0].split(',').map(range);
            Some(Distribution::Histogram(ranges.collect::<Option<_>>()?))
        }
        _ => None,
    }
}

fn range(text: &str) -> Option<Range> {
    let (numbers, weight) = text.split_once('=')?;
    let (low, high) = numbers.split_once('-').unwrap_or((numbers, numbers));
    let number = |text: &str| text.trim().parse().ok();
    Some(Range { low: number(low)?, high: number(high)?, weight: weight.trim().parse().ok()? })
}

fn drawn(name: &str, words: &[&str], count: usize) -> Option<Tag> {
    let distribution = of(name, words.get(..count)?)?;
    let width = match words.get(count..)? {
        [] => 0,
        [width] => width.parse().ok()?,
        _ => return None,
    };
    Some(Tag::Drawn { distribution, width })
}

fn one<T: std::str::FromStr>(words: &[&str]) -> Option<T> {
    if let [word] = words { word.parse().ok() } else { None }
}

fn name(words: &[&str]) -> Option<String> {
    if let [word] = words { Some((*word).to_owned()) } else { None }
}

fn number(words: &[&str]) -> Option<Tag> {
    match words {
        [] => Some(Tag::Number { start: 0, width: 0 }),
        [width] => Some(Tag::Number { start: 0, width: width.parse().ok()? }),
        [width, start] => {
            Some(Tag::Number { start: start.parse().ok()?, width: width.parse().ok()? })
        }
        _ => None,
    }
}

fn unique(words: &[&str]) -> Option<Tag> {
    match words {
        ["hex", width] => Some(Tag::Unique { base: 16, width: width.parse().ok()? }),
        [width] => Some(Tag::Unique { base: 10, width: width.parse().ok()? }),
        _ => None,
    }
}

/// A hash of tens of microseconds, so that a million of them take a minute: real ones cost a thousand times that.
const KIB: u32 = 64;

fn argon2(words: &[&str]) -> Option<Tag> {
    let (name, memory, passes) = match words {
        [name] => (name, KIB, 1),
        [name, memory, passes] => (name, memory.parse().ok()?, passes.parse().ok()?),
        _ => return None,
    };
    Some(Tag::Argon2 { name: (*name).to_owned(), memory, passes })
}

fn dn(words: &[&str]) -> Option<Tag> {
    let (kind, rest) = words.split_first()?;
    let pick = if rest.is_empty() { Pick::Uniform } else { pick(&rest.join(":"))? };
    Some(Tag::Dn { kind: (*kind).to_owned(), pick })
}

fn times(words: &[&str]) -> Option<Tag> {
    let [from, to] = words else { return None };
    Some(Tag::Time { from: time::parse(from)?, to: time::parse(to)? })
}

fn bytes(words: &[&str]) -> Option<Tag> {
    match words {
        [count] => Some(Tag::Bytes { low: count.parse().ok()?, high: count.parse().ok()? }),
        [low, high] => Some(Tag::Bytes { low: low.parse().ok()?, high: high.parse().ok()? }),
        _ => None,
    }
}

fn several(words: &[&str]) -> Option<Tag> {
    let (vocabulary, count) = words.split_first()?;
    let count = distribution(&count.join(":")).ok()?;
    Some(Tag::Words { vocabulary: (*vocabulary).to_owned(), count })
}

fn chars(words: &[&str]) -> Option<Tag> {
    let (class, length) = words.split_first()?;
    let class = match *class {
        "hex" => Class::Hex,
        "alpha" => Class::Alpha,
        "mixed" => Class::Mixed,
        "base64" => Class::Base64,
        _ => return None,
    };
    Some(Tag::Chars { class, length: distribution(&length.join(":")).ok()? })
}
