//! Decides whether a text of a template gives every entry of its kind a different value, so that a search for the value
//! finds one entry.

use synth::model::{Item, Kind, Piece, Tag, Template, Text};

/// References to values are replaced up to this depth, and until the text has this number of pieces.
const MOST_DEPTH: usize = 32;
const MOST_PIECES: usize = 1000;

/// Replaces references to the values of the entry by the texts of these values, if the values are always present.
pub fn flattened(kind: &Kind, text: &Text) -> Text {
    let mut out = Vec::new();
    flatten(kind, text, MOST_DEPTH, &mut { MOST_PIECES }, &mut out);
    out
}

/// Copies pieces unchanged if `depth` or `pieces`, the remaining number of pieces, is 0.
fn flatten(kind: &Kind, text: &Text, depth: usize, pieces: &mut usize, out: &mut Text) {
    for piece in text {
        *pieces = pieces.saturating_sub(1);
        let value = match piece {
            Piece::Tag(Tag::Value { name }) => kind.values.iter().find(|value| value.name == *name),
            _ => None,
        };
        let is_always = |item: &Item| item.chance >= 1.0 && item.conditions.is_empty() && item.count.is_none();
        match value {
            Some(value) if depth > 0 && *pieces > 0 && is_always(&value.item) => {
                flatten(kind, &value.item.text, depth - 1, pieces, out);
            }
            _ => out.push(piece.clone()),
        }
    }
}

/// Whether all entries of the kind certainly have different values. False if this is unknown.
pub fn is_unique(template: &Template, kind: &Kind, count: u64, text: &Text) -> bool {
    let text = flattened(kind, text);
    (0..text.len()).any(|at| {
        let Some(number) = numbering(&text[at], count) else { return false };
        let (before, after) = (&text[..at], &text[at + 1..]);
        let left = number.is_apart(before.last(), <[u8]>::last);
        let right = number.is_apart(after.first(), <[u8]>::first);
        (left && after.iter().all(is_literal))
            || (right && before.iter().all(is_literal))
            || (left && is_delimited(template, kind, before, after))
    })
}

/// How a tag writes the number that differs between entries.
#[derive(Clone, Copy)]
struct Numbering {
    /// Whether all numbers have the same number of digits.
    fixed: bool,
    hexadecimal: bool,
}

impl Numbering {
    /// Whether the number can be distinguished from the piece `beside` it, because the width is fixed, or because the
    /// byte of the piece next to the number is never a digit. `end` returns this byte.
    fn is_apart(self, beside: Option<&Piece>, end: fn(&[u8]) -> Option<&u8>) -> bool {
        let is_digit = if self.hexadecimal { u8::is_ascii_hexdigit } else { u8::is_ascii_digit };
        self.fixed
            || beside.is_none_or(
                |piece| matches!(piece, Piece::Literal(bytes) if end(bytes).is_some_and(|byte| !is_digit(byte))),
            )
    }
}

/// Returns how a piece writes a number that differs in each entry, or None if the piece writes no such number.
fn numbering(piece: &Piece, count: u64) -> Option<Numbering> {
    match piece {
        Piece::Tag(Tag::Number { start, width }) => {
            let last = start.saturating_add(count.saturating_sub(1));
            let digits = last.checked_ilog10().unwrap_or(0) as usize + 1;
            Some(Numbering { fixed: digits <= *width, hexadecimal: false })
        }
        Piece::Tag(Tag::Unique { base, .. }) => Some(Numbering { fixed: true, hexadecimal: *base == 16 }),
        _ => None,
    }
}

const fn is_literal(piece: &Piece) -> bool {
    matches!(piece, Piece::Literal(_))
}

/// Whether the character after the number is neither a letter nor a digit, such as the @ of an address, and cannot
/// occur before the number.
fn is_delimited(template: &Template, kind: &Kind, before: &[Piece], after: &[Piece]) -> bool {
    let Some(Piece::Literal(next)) = after.first() else { return false };
    let Some(&sign) = next.first() else { return false };
    !sign.is_ascii_alphanumeric() && before.iter().all(|piece| never_has(template, kind, piece, sign))
}

/// Whether `piece` never contains `sign`, which is neither a letter nor a digit.
fn never_has(template: &Template, kind: &Kind, piece: &Piece, sign: u8) -> bool {
    match piece {
        Piece::Literal(bytes) => !bytes.contains(&sign),
        Piece::Tag(Tag::Pick { list }) => {
            let list = template.lists.iter().find(|known| known.name == *list);
            list.is_some_and(|list| list.values().all(|value| !value.contains(&sign)))
        }
        Piece::Tag(Tag::Value { name }) => kind.values.iter().any(|value| {
            value.name == *name
                && value.item.text.iter().all(|piece| is_literal(piece) && never_has(template, kind, piece, sign))
        }),
        Piece::Tag(Tag::Uuid) => sign != b'-',
        Piece::Tag(
            Tag::Number { .. }
            | Tag::Digits(_)
            | Tag::Hex(_)
            | Tag::Drawn { .. }
            | Tag::Unique { .. }
            | Tag::Ascii { .. },
        ) => true,
        Piece::Tag(_) => false,
    }
}

/// Whether the values of two texts certainly differ, whatever their tags generate, because the texts begin or end with
/// different words.
pub fn never_overlap(template: &Template, one: &Text, other: &Text) -> bool {
    let words = |piece: Option<&Piece>| words(template, piece);
    differ(&words(one.first()), &words(other.first()), false) || differ(&words(one.last()), &words(other.last()), true)
}

/// The values of a list with more words than this count as unknown, to bound the time.
const MOST_WORDS: usize = 400;

/// Returns the number of words with which a text may begin, or with which it may end, whichever is greater.
pub fn words_of(template: &Template, text: &Text) -> u64 {
    let count = |piece: Option<&Piece>| words(template, piece).len() as u64;
    count(text.first()).max(count(text.last()))
}

/// Returns the values that a piece may generate, in lower case; empty if they are unknown.
fn words(template: &Template, piece: Option<&Piece>) -> Vec<Vec<u8>> {
    match piece {
        Some(Piece::Literal(bytes)) => vec![bytes.to_ascii_lowercase()],
        Some(Piece::Tag(Tag::Pick { list })) => {
            let list = template.lists.iter().find(|known| known.name == *list);
            let values = list.filter(|list| list.count() <= MOST_WORDS).into_iter().flat_map(|list| list.values());
            values.map(<[u8]>::to_ascii_lowercase).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether both lists have words, and no word of one list is a prefix of a word of the other list; with `from_end`, a
/// suffix.
fn differ(some: &[Vec<u8>], others: &[Vec<u8>], from_end: bool) -> bool {
    let apart = |one: &[u8], other: &[u8]| {
        if from_end {
            one.iter().rev().zip(other.iter().rev()).any(|(a, b)| a != b)
        } else {
            one.iter().zip(other).any(|(a, b)| a != b)
        }
    };
    let known = !some.is_empty() && !others.is_empty();
    known && some.iter().all(|one| others.iter().all(|other| apart(one, other)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use synth::Location;
    use synth::model::Named;

    fn literal(text: &str) -> Piece {
        Piece::Literal(text.as_bytes().to_vec())
    }

    const NUMBER: Piece = Piece::Tag(Tag::Number { start: 0, width: 0 });

    fn tag(text: &str) -> Piece {
        Piece::Tag(match text.split_once(':') {
            Some(("pick", list)) => Tag::Pick { list: list.to_owned() },
            Some(("number", width)) => Tag::Number { start: 0, width: width.parse().unwrap() },
            Some(("unique", width)) => Tag::Unique { base: 10, width: width.parse().unwrap() },
            Some(("ascii", name)) => Tag::Ascii { name: name.to_owned() },
            _ => Tag::Value { name: text.to_owned() },
        })
    }

    fn template() -> (Template, Kind) {
        let text = r#"
            lists = { names = ["Ann", "Zo\u00eb"], hosts = ["a.org", "1.b@net"] }
            [[kinds]]
            name = "person"
            rdn = "cn"
            values = { uid = "u{number}", first = "{pick:names}" }
            attributes = { cn = "{number}" }"#;
        let template = synth::toml::parse(Path::new("test.toml"), text, &[]).unwrap();
        let kind = template.kinds[0].clone();
        (template, kind)
    }

    #[test]
    fn only_numbers_apart_from_other_digits_are_unique() {
        let (template, kind) = template();
        for (expected, text) in [
            (true, vec![NUMBER]),
            (true, vec![tag("uid")]),
            (true, vec![tag("pick:names"), literal(" "), NUMBER]),
            (true, vec![literal("u"), NUMBER, literal("@example.com")]),
            (true, vec![NUMBER, literal("."), tag("pick:hosts")]),
            (true, vec![tag("pick:names"), literal("."), NUMBER, literal("@"), tag("pick:hosts")]),
            (true, vec![tag("pick:hosts"), tag("number:9")]),
            (true, vec![tag("unique:8"), tag("pick:hosts")]),
            (false, vec![literal("u")]),
            (false, vec![tag("pick:names")]),
            (false, vec![tag("pick:hosts"), NUMBER]),
            (false, vec![literal("u1"), NUMBER, tag("pick:names"), NUMBER, tag("pick:names")]),
            (false, vec![tag("pick:hosts"), literal("."), NUMBER, literal("@"), tag("pick:hosts")]),
            (false, vec![tag("pick:hosts"), tag("number:2")]),
            (false, vec![tag("ascii:uid")]),
        ] {
            assert_eq!(is_unique(&template, &kind, 1000, &text), expected, "{text:?}");
        }
    }

    #[test]
    fn the_depth_of_references_is_limited() {
        let (_, mut kind) = template();
        for number in 0..40 {
            let text = vec![tag(&format!("v{number}")); 9];
            let name = format!("v{}", number + 1);
            kind.values.push(Named { name, item: Item::always(Location::default(), text) });
        }
        assert!(flattened(&kind, &vec![tag("v40")]).len() < 10 * MOST_PIECES);
    }

    #[test]
    fn texts_with_different_ends_never_overlap() {
        let (template, _) = template();
        let are_apart = |one: &Text, other: &Text| never_overlap(&template, one, other);
        let apart = |one: &str, other: &str| {
            are_apart(&vec![literal(one), NUMBER], &vec![literal(other), NUMBER])
                || are_apart(&vec![NUMBER, literal(one)], &vec![NUMBER, literal(other)])
        };
        assert!(are_apart(&vec![NUMBER, tag("pick:hosts")], &vec![NUMBER, literal("x.com")]));
        assert!(!are_apart(&vec![NUMBER, tag("pick:hosts")], &vec![NUMBER, literal("b@net")]));
        assert!(apart("a", "d"));
        assert!(apart("ax", "ay1"));
        assert!(!apart("a", "A"));
        assert!(!apart("a", ""));
        assert!(!are_apart(&vec![NUMBER], &vec![literal("1")]));
    }
}
