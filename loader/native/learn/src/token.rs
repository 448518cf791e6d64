//! Splits a value into tokens: runs of letters, runs of digits, and the marks between them.
//!
//! The shape of a value has a character for each token: `L` letters, `D` digits, `H` hexadecimal digits, `M` letters
//! and digits mixed, `U` a UUID; a mark represents itself. So a shape reveals only the ASCII marks of a value.

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
    pub sort: TokenKind,
    pub text: &'a str,
}

/// A value with more tokens than this has no shape: it is a text of words.
pub const MOST_TOKENS: usize = 24;
const MOST_SPACES: usize = 4;
/// Runs that change more often between letters and digits are not split into words and numbers.
const MOST_CHANGES: usize = 2;
/// Minimum number of groups of hexadecimal digits that make a MAC or IPv6 address.
const LEAST_GROUPS: usize = 4;

/// Returns the shape of a value and collects its tokens, except marks. Returns None for a text of many words.
pub fn shape<'a>(value: &'a str, tokens: &mut Vec<Token<'a>>) -> Option<String> {
    tokens.clear();
    let mut shape = String::new();
    if values::uuid::octets(value.as_bytes()).is_some() {
        tokens.push(Token { sort: TokenKind::Uuid, text: value });
        return Some("U".to_owned());
    }
    let grouped = is_grouped(value);
    for run in runs(value) {
        let begins = run.as_bytes()[0];
        if !run.starts_with(in_word) {
            shape.push(char::from(begins));
        } else if grouped {
            tokens.push(Token { sort: TokenKind::Hex, text: run });
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

/// Returns the words of a text: the parts between spaces, without the marks around them.
pub fn words(value: &str) -> impl Iterator<Item = &str> {
    let bare = |word: &'_ str| !word.is_empty();
    value
        .split_whitespace()
        .map(|word| word.trim_matches(|one: char| one.is_ascii_punctuation()))
        .filter(move |word| bare(word))
}

fn in_word(one: char) -> bool {
    !one.is_ascii() || one.is_ascii_alphanumeric()
}

/// Splits a value into single marks and the words between them.
fn runs(value: &str) -> impl Iterator<Item = &str> {
    let mut rest = value;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let end = if in_word(first) { rest.find(|one| !in_word(one)).unwrap_or(rest.len()) } else { first.len_utf8() };
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
        let sort = if hex { TokenKind::Hex } else { TokenKind::Mixed };
        tokens.push(Token { sort, text: run });
        return shape.push(if hex { 'H' } else { 'M' });
    }
    let mut rest = run;
    while let Some(first) = rest.chars().next() {
        let digits = first.is_ascii_digit();
        let end = rest.find(|one: char| one.is_ascii_digit() != digits).unwrap_or(rest.len());
        let sort = if digits { TokenKind::Digits } else { TokenKind::Letters };
        tokens.push(Token { sort, text: &rest[..end] });
        shape.push(if digits { 'D' } else { 'L' });
        rest = &rest[end..];
    }
}

/// Whether the value is four or more groups of up to four hexadecimal digits, separated by colons or hyphens.
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
