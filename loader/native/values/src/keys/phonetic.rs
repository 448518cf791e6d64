use super::Key;
use crate::{Result, text};

/// Maximum number of letters of a word. Further letters are ignored.
const LETTERS: usize = 31;
/// Maximum number of characters of a code.
const CODE: usize = 4;

/// Calls `emit` with the keys of an approx index: a metaphone code of 1 to 4 characters for each word
/// (`servers/slapd/phonetic.c`). A word without a code has no key.
///
/// Refuses values that are not UTF-8, because slapd aborts on them.
pub fn phonetic(normalised: &[u8], mut emit: impl FnMut(Key)) -> Result<()> {
    let mut ascii = Vec::with_capacity(normalised.len());
    text::reduce_to_ascii(normalised, &mut ascii)?;
    let text = ascii.split(|&byte| byte == 0).next().unwrap_or_default();
    for word in text.split(|&byte| byte == b' ') {
        let code = Word::read(word).code();
        if !code.is_empty() {
            emit(Key::new(&code));
        }
    }
    Ok(())
}

/// The letters of a word in upper case, with zeros on both sides.
struct Word {
    letters: [u8; 4 + LETTERS + 4],
    first: usize,
    end: usize,
}

impl Word {
    /// Reads the letters up to a space, digit or punctuation character; control characters are skipped.
    fn read(text: &[u8]) -> Self {
        let mut letters = [0; 4 + LETTERS + 4];
        let inside = |byte: &u8| !(byte.is_ascii_digit() || byte.is_ascii_punctuation() || matches!(byte, 9..=13));
        let read = text.iter().copied().take_while(inside).filter(u8::is_ascii_alphabetic).take(LETTERS);
        let mut end = 4;
        for letter in read {
            letters[end] = letter.to_ascii_uppercase();
            end += 1;
        }
        let mut word = Self { letters, first: 4, end };
        word.simplify_start();
        word
    }

    /// Drops the first letter of `PN`, `KN`, `GN`, `AE` and `WR`; `WH` becomes `W`, and `X` becomes `S`.
    fn simplify_start(&mut self) {
        match self.letters[4..6] {
            [b'P' | b'K' | b'G', b'N'] | [b'A', b'E'] | [b'W', b'R'] => self.drop_first(),
            [b'W', b'H'] => {
                self.drop_first();
                self.letters[5] = b'W';
            }
            [b'X', _] => self.letters[4] = b'S',
            _ => {}
        }
    }

    fn drop_first(&mut self) {
        self.letters[4] = 0;
        self.first = 5;
    }

    fn code(&self) -> Vec<u8> {
        let mut code = Vec::with_capacity(CODE + 1);
        // An `X` becomes `KS`. The `S` replaces the code of the letter after the `X`.
        let mut owes_s = false;
        for at in self.first..=self.end {
            if code.len() == CODE {
                break;
            }
            if owes_s {
                owes_s = false;
                code.push(b'S');
            } else if self.letters[at] != self.letters[at - 1] || self.letters[at] == b'C' {
                code.extend(self.sound(at));
                owes_s = self.letters[at] == b'X';
            }
        }
        code
    }

    /// Returns the code of a letter, which depends on the adjacent letters, or `None` if the letter is silent.
    fn sound(&self, at: usize) -> Option<u8> {
        let [before, letter, next, after] = [at - 1, at, at + 1, at + 2].map(|at| self.letters[at]);
        let starts = at == self.first;
        Some(match letter {
            b'F' | b'J' | b'L' | b'M' | b'N' | b'R' => letter,
            _ if starts && is_vowel(letter) => letter,
            b'B' if at + 1 == self.end && before != b'M' => b'B',
            b'C' if before == b'S' && is_front(next) => return None,
            b'C' if next == b'I' && after == b'A' => b'X',
            b'C' if is_front(next) => b'S',
            b'C' if next == b'H' && !(starts && !is_vowel(after) || before == b'S') => b'X',
            b'D' if next == b'G' && is_front(after) => b'J',
            b'G' if self.is_silent_g(at) => return None,
            b'G' if is_front(next) && after != b'G' => b'G',
            b'H' if b"CGPST".contains(&before) || is_vowel(before) && !is_vowel(next) => return None,
            b'H' => b'H',
            b'K' if before == b'C' => return None,
            b'P' if next == b'H' => b'F',
            b'P' => b'P',
            b'S' if next == b'H' || next == b'I' && matches!(after, b'O' | b'A') => b'X',
            b'T' if next == b'I' && matches!(after, b'O' | b'A') => b'X',
            b'T' if next == b'H' => b'0',
            b'T' if next == b'C' && after == b'H' => return None,
            b'V' => b'F',
            b'W' | b'Y' if is_vowel(next) => letter,
            b'C' | b'G' | b'K' | b'Q' | b'X' => b'K',
            b'D' | b'T' => b'T',
            b'S' | b'Z' => b'S',
            _ => return None,
        })
    }

    /// Whether a `G` is silent: in `GNED`, `DGE`, `DGI` and `DGY`, and before a `J` that no vowel follows.
    fn is_silent_g(&self, at: usize) -> bool {
        let [before, next, after, last] = [at - 1, at + 1, at + 2, at + 3].map(|at| self.letters[at]);
        match next {
            b'J' => !is_vowel(after),
            b'N' => after == b'E' && last == b'D',
            _ => before == b'D' && is_front(next),
        }
    }
}

fn is_vowel(letter: u8) -> bool {
    b"AEIOU".contains(&letter)
}

fn is_front(letter: u8) -> bool {
    b"EIY".contains(&letter)
}
