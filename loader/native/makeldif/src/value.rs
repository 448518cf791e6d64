//! The value of an attribute line: text, `{references}` and `<tags>`.

use synth::problem::Location;

use super::error::{Located, Result, TemplateError};
use super::lines::Line;
use super::names::canonical;
use super::syntax::{Piece, ValueLine};
use super::tag;

pub fn parse(line: &Line) -> Result<ValueLine> {
    let (end, attribute) = name(line)?;
    let at = begin(&line.text, end + 1);
    let mut rest = Rest { line, at, known: (at, line.spot(at)) };
    let mut pieces = Vec::new();
    while rest.at < line.text.len() {
        pieces.push(rest.piece()?);
    }
    Ok(ValueLine { attribute, pieces })
}

/// Up to the colon.
fn name(line: &Line) -> Result<(usize, Located<String>)> {
    let message = "write ATTRIBUTE: VALUE";
    let end = line.text.find(':').filter(|&end| end > 0);
    let end = end.ok_or_else(|| TemplateError::new(line.spot(0), message))?;
    let name = line.text[..end].trim_end();
    let is_good = |letter: char| letter.is_ascii_alphanumeric() || "-;._".contains(letter);
    if !name.chars().all(is_good)
        || !name.starts_with(|letter: char| letter.is_ascii_alphanumeric())
    {
        return Err(TemplateError::new(
            line.spot(0),
            format!("{name:?} is not the name of an attribute"),
        ));
    }
    Ok((end, Located { value: canonical(name).to_string(), spot: line.spot(0) }))
}

/// Where the value begins. `::` and `:<` are taken, but mean nothing to makeldif.
fn begin(text: &str, mut at: usize) -> usize {
    if text[at..].starts_with([':', '<']) {
        at += 1;
    }
    text.len() - text[at..].trim_start_matches(' ').len()
}

/// What is left of the line.
struct Rest<'a> {
    line: &'a Line,
    at: usize,
    /// An offset before it, and its spot.
    known: (usize, Location),
}

impl Rest<'_> {
    fn piece(&mut self) -> Result<Located<Piece>> {
        let spot = self.line.spot_behind(self.known.0, self.known.1, self.at);
        self.known = (self.at, spot);
        let value = match self.line.text.as_bytes()[self.at] {
            b'<' => tag::parse(&self.enclosed('>')?, spot)?,
            b'{' => tag::reference(&self.enclosed('}')?, spot)?,
            _ => Piece::Text(self.until(&['<', '{'])?.0),
        };
        Ok(Located { value, spot })
    }

    /// What stands between the bracket here and the one that closes it.
    fn enclosed(&mut self, closing: char) -> Result<String> {
        let opened = self.at;
        self.at += 1;
        let (text, found) = self.until(&[closing])?;
        if !found {
            let open = &self.line.text[opened..=opened];
            let message =
                format!("no {closing:?} closes this tag; write \\{open} for the character itself");
            return Err(TemplateError::new(self.line.spot(opened), message.replace('\'', "")));
        }
        self.at += 1;
        Ok(text)
    }

    /// The text up to one of these characters, backslashes taken off, and whether there is one.
    fn until(&mut self, ends: &[char]) -> Result<(String, bool)> {
        let mut text = String::new();
        let mut letters = self.line.text[self.at..].chars();
        while let Some(letter) = letters.next() {
            if ends.contains(&letter) {
                return Ok((text, true));
            }
            self.at += letter.len_utf8();
            if letter == '\\' {
                let kept = letters.next().ok_or_else(|| self.lonely_backslash())?;
                self.at += kept.len_utf8();
                text.push(kept);
            } else {
                text.push(letter);
            }
        }
        Ok((text, false))
    }

    fn lonely_backslash(&self) -> TemplateError {
        let spot: Location = self.line.spot(self.at - 1);
        TemplateError::new(
            spot,
            "nothing stands behind this backslash; write \\\\ for the character itself",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::lines;

    fn parsed(text: &str) -> Result<ValueLine> {
        parse(&lines(text).unwrap()[0])
    }

    fn pieces(text: &str) -> Vec<Piece> {
        parsed(text).unwrap().pieces.into_iter().map(|piece| piece.value).collect()
    }

    fn text(text: &str) -> Piece {
        Piece::Text(text.to_owned())
    }

    #[test]
    fn text_and_tags_take_turns() {
        let line = parsed("CN:  a{sn:2}b< GUID >").unwrap();
        assert_eq!(line.attribute.value, "cn");
        let spots: Vec<u32> = line.pieces.iter().map(|piece| piece.spot.column).collect();
        assert_eq!(spots, [6, 7, 13, 14]);
        let reference = Piece::Attribute { name: "sn".to_owned(), characters: 2 };
        assert_eq!(pieces("cn: a{sn:2}b< GUID >"), [text("a"), reference, text("b"), Piece::Guid]);
        assert_eq!(pieces("cn:"), []);
        assert_eq!(pieces("photo:< file:///x"), [text("file:///x")]);
        assert_eq!(pieces("photo:: QQ== "), [text("QQ== ")]);
    }

    #[test]
    fn a_backslash_makes_any_character_plain() {
        assert_eq!(pieces(r"cn: \{a\} \<b> \[c\] \\ \q"), [text(r"{a} <b> [c] \ q")]);
        let list = Piece::List(vec![("a>b".to_owned(), 1)]);
        assert_eq!(pieces(r"cn: <list:a\>b>"), [list]);
    }

    #[test]
    fn mistakes_have_their_spot() {
        let cases = [
            ("cn: ab<guid", 7, "no > closes this tag; write \\< for the character itself"),
            ("cn: {sn", 5, "no } closes this tag; write \\{ for the character itself"),
            (
                "cn: a\\",
                6,
                "nothing stands behind this backslash; write \\\\ for the character itself",
            ),
            ("nothing", 1, "write ATTRIBUTE: VALUE"),
            ("a b: c", 1, "\"a b\" is not the name of an attribute"),
        ];
        for (text, column, message) in cases {
            let wrong = parsed(text).unwrap_err();
            assert_eq!((wrong.spot.column, wrong.message.as_str()), (column, message));
        }
    }
}
