//! Splits a value into tokens: runs of letters, runs of digits, and the marks between them.
//!
//! The shape of a value has a letter for each token: `L` letters, `D` digits, `H` hexadecimal digits, `M` letters and
//! digits mixed, `U` a UUID. A mark represents itself. So a shape reveals only the ASCII marks of a value.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    Letters,
    Digits,
    Hex,
    Mixed,
    Uuid,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    pub kind: TokenKind,
    pub text: &'a str,
}

/// A value with more tokens or spaces than this has no shape: it is a text of words.
pub const MOST_TOKENS: usize = 24;
const MOST_SPACES: usize = 4;
/// A run with more changes between letters and digits than this is a single token.
const MOST_CHANGES: usize = 2;
/// Minimum number of groups of hexadecimal digits in a value that counts as a MAC or IPv6 address.
const LEAST_GROUPS: usize = 4;

/// Returns the shape of a value, or None for a text of words. Fills `tokens` with the value's tokens except the marks.
pub fn shape<'a>(value: &'a str, tokens: &mut Vec<Token<'a>>) -> Option<String> {
    tokens.clear();
    let mut shape = String::new();
    if values::uuid::octets(value.as_bytes()).is_some() {
        tokens.push(Token { kind: TokenKind::Uuid, text: value });
        return Some("U".to_owned());
    }
    let grouped = is_grouped(value);
    for run in runs(value) {
        if !run.starts_with(in_word) {
            shape.push_str(run);
        } else if grouped {
            tokens.push(Token { kind: TokenKind::Hex, text: run });
            shape.push('H');
        } else {
            word(run, &mut shape, tokens);
        }
        if shape.len() > MOST_TOKENS {
            return None;
        }
    }
    let spaces = shape.bytes().filter(|mark| *mark == b' ').count();
    (spaces <= MOST_SPACES).then_some(shape)
}

/// Returns the words of a text: the parts between white space, without marks at their ends.
pub fn words(value: &str) -> impl Iterator<Item = &str> {
    let words = value.split_whitespace().map(|word| word.trim_matches(|mark: char| mark.is_ascii_punctuation()));
    words.filter(|word| !word.is_empty())
}

fn in_word(character: char) -> bool {
    !character.is_ascii() || character.is_ascii_alphanumeric()
}

/// Splits a value into single marks and the words between them.
fn runs(value: &str) -> impl Iterator<Item = &str> {
    let mut rest = value;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end =
            if in_word(first) { rest.find(|next| !in_word(next)).unwrap_or(rest.len()) } else { first.len_utf8() };
        let (run, after) = rest.split_at(end);
        rest = after;
        Some(run)
    })
}

/// Splits a run into letters and digits, unless they alternate too often.
fn word<'a>(run: &'a str, shape: &mut String, tokens: &mut Vec<Token<'a>>) {
    let changes = run.as_bytes().windows(2).filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit());
    if changes.count() > MOST_CHANGES {
        let hex = run.bytes().all(|byte| byte.is_ascii_hexdigit());
        let (kind, letter) = if hex { (TokenKind::Hex, 'H') } else { (TokenKind::Mixed, 'M') };
        tokens.push(Token { kind, text: run });
        return shape.push(letter);
    }
    let mut rest = run;
    while let Some(first) = rest.chars().next() {
        let digits = first.is_ascii_digit();
        let (text, after) =
            rest.split_at(rest.find(|next: char| next.is_ascii_digit() != digits).unwrap_or(rest.len()));
        let (kind, letter) = if digits { (TokenKind::Digits, 'D') } else { (TokenKind::Letters, 'L') };
        tokens.push(Token { kind, text });
        shape.push(letter);
        rest = after;
    }
}

/// Whether the value consists of groups of up to four hexadecimal digits, separated by colons or hyphens, with at least
/// one letter.
fn is_grouped(value: &str) -> bool {
    let fits = |group: &str| group.len() <= 4 && group.bytes().all(|byte| byte.is_ascii_hexdigit());
    [':', '-'].iter().any(|&mark| {
        value.split(mark).count() >= LEAST_GROUPS
            && value.split(mark).all(fits)
            && value.bytes().any(|byte| byte.is_ascii_alphabetic())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape_of(value: &str) -> Option<String> {
        shape(value, &mut Vec::new())
    }

    #[test]
    fn values_have_the_expected_shapes() {
        for (value, expected) in [
            ("Smith", "L"),
            ("u000000017", "LD"),
            ("Ann-Marie O'Neil", "L-L L'L"),
            ("ann.smith.17@mail.example.com", "L.L.D@L.L.L"),
            ("+49 170 1234567", "+D D D"),
            ("2f1a0c4e9b", "H"),
            ("x1y2z3", "M"),
            ("00:1b:2c:3d:4e:5f", "H:H:H:H:H:H"),
            ("10.0.0.1", "D.D.D.D"),
            ("6ba7b810-9dad-11d1-80b4-00c04fd430c8", "U"),
            ("Žofie Müller", "L L"),
            ("", ""),
        ] {
            assert_eq!(shape_of(value).as_deref(), Some(expected), "{value}");
        }
        assert_eq!(shape_of(&"word ".repeat(20)), None);
    }

    #[test]
    fn tokens_match_their_shape() {
        let mut tokens = Vec::new();
        shape("host12.Example", &mut tokens);
        let texts: Vec<_> = tokens.iter().map(|token| token.text).collect();
        assert_eq!(texts, ["host", "12", "Example"]);
        assert_eq!(words("Hello, (big) world - 17!").collect::<Vec<_>>(), ["Hello", "big", "world", "17"]);
    }
}
