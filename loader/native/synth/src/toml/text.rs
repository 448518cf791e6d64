//! Texts with tags: `{tag}` or `{tag:argument}`; `{{` and `}}` are braces.

use super::tags::{self, Values};
use crate::model::{Piece, Text};

/// Pieces of a text, at most.
const PIECES: usize = 10_000;

/// What is wrong, and at which byte of the text.
#[derive(Debug, PartialEq, Eq)]
pub struct TextError {
    pub at: usize,
    pub message: String,
}

/// `values`: the entry's values that may be named. `check`: what else is to be said of a tag.
pub fn parse(
    text: &str,
    values: &Values,
    check: impl Fn(&crate::model::Tag) -> Result<(), String>,
) -> Result<Text, TextError> {
    let mut found: Text = Vec::new();
    let mut at = 0;
    while at < text.len() {
        if found.len() > PIECES {
            return Err(TextError { at, message: format!("more than {PIECES} pieces") });
        }
        let rest = &text[at..];
        let literal = rest.find(['{', '}']).unwrap_or(rest.len());
        push(&mut found, &rest[..literal]);
        at += literal;
        match &rest[literal..] {
            "" => {}
            brace if brace.starts_with("{{") || brace.starts_with("}}") => {
                push(&mut found, &brace[..1]);
                at += 2;
            }
            tag => {
                let inside = inside(tag).ok_or_else(|| TextError {
                    at,
                    message: "braces do not match (write {{ for a brace)".to_owned(),
                })?;
                let told = |message| TextError { at, message };
                let tag = tags::parse(inside, values).map_err(told)?;
                check(&tag).map_err(|reason| told(format!("{{{inside}}}: {reason}")))?;
                found.push(Piece::Tag(tag));
                at += inside.len() + 2;
            }
        }
    }
    Ok(found)
}

/// What stands between a brace and the next one, which must be its end.
fn inside(text: &str) -> Option<&str> {
    let text = text.strip_prefix('{')?;
    let end = text.find(['{', '}'])?;
    text[end..].starts_with('}').then(|| &text[..end])
}

fn push(found: &mut Text, literal: &str) {
    if literal.is_empty() {
        return;
    }
    match found.last_mut() {
        Some(Piece::Literal(bytes)) => bytes.extend_from_slice(literal.as_bytes()),
        _ => found.push(Piece::Literal(literal.as_bytes().to_vec())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Tag;
    use crate::tags::SlotFacts;

    fn parsed(text: &str) -> Result<Text, TextError> {
        let facts = SlotFacts { at: 0, most: 0, printable: false };
        parse(text, &Values::from([("name".to_owned(), facts)]), |_| Ok(()))
    }

    #[test]
    fn texts_are_literals_and_tags() {
        let literal = |text: &str| Piece::Literal(text.as_bytes().to_vec());
        let name = || Piece::Tag(Tag::Value { name: "name".to_owned() });
        assert_eq!(parsed("100 % {{plain}}").unwrap(), [literal("100 % {plain}")]);
        assert_eq!(parsed("{name}, {name}").unwrap(), [name(), literal(", "), name()]);
        assert_eq!(parsed("").unwrap(), []);
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
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
