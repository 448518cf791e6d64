//! Which letter follows which in the words of a vocabulary, told so coarsely that no word can be read from it.

/// a to z, letters of two bytes, letters of three and more.
pub const SYMBOLS: usize = 28;
const TWO: usize = 26;
const THREE: usize = 27;
/// Fewer distinct words than this have no table of their own.
pub const LEAST_WORDS: u64 = 200;
/// A pair is told when so many words have it.
const LEAST_PAIR: u32 = 2;
/// The highest mark of a row; each one less is half as frequent.
const TOP: u32 = 9;

/// Pairs counted: row 0 is the head of a word, row s+1 what follows symbol s.
#[derive(Debug, Clone)]
pub struct Letters {
    pub words: u64,
    pairs: Box<[[u32; SYMBOLS]; SYMBOLS + 1]>,
}

impl Default for Letters {
    fn default() -> Self {
        Self { words: 0, pairs: Box::new([[0; SYMBOLS]; SYMBOLS + 1]) }
    }
}

impl Letters {
    /// A distinct word.
    pub fn word(&mut self, word: &str) {
        self.words += 1;
        let mut row = 0;
        for symbol in word.chars().filter_map(symbol) {
            self.pairs[row][symbol] += 1;
            row = symbol + 1;
        }
    }

    pub fn merge(&mut self, other: &Self) {
        self.words += other.words;
        for (mine, theirs) in self.pairs.iter_mut().zip(other.pairs.iter()) {
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine += theirs);
        }
    }

    /// One row a symbol; a digit for what follows: 9 for the most frequent, 0 for what is rare or never.
    pub fn rows(&self) -> Vec<String> {
        self.pairs.iter().map(|row| marks(row)).collect()
    }
}

fn marks(row: &[u32; SYMBOLS]) -> String {
    let most = row.iter().copied().max().unwrap_or(0);
    let mark = |&count: &u32| {
        if count < LEAST_PAIR {
            return '0';
        }
        let less = (f64::from(most) / f64::from(count)).log2().round();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 32")]
        let mark = TOP.saturating_sub(less as u32);
        char::from_digit(mark, 10).unwrap_or('0')
    };
    row.iter().map(mark).collect()
}

/// What has no case and no place in the alphabet goes by its length.
fn symbol(letter: char) -> Option<usize> {
    match letter {
        'a'..='z' => Some(letter as usize - 'a' as usize),
        'A'..='Z' => Some(letter as usize - 'A' as usize),
        _ if letter.is_ascii() => None,
        _ if letter.len_utf8() == 2 => Some(TWO),
        _ => Some(THREE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_tell_pairs_and_no_more() {
        let mut letters = Letters::default();
        for word in ["anna", "Anne", "anton", "bé", "bé"] {
            letters.word(word);
        }
        let rows = letters.rows();
        assert_eq!(rows.len(), SYMBOLS + 1);
        assert!(rows[0].starts_with("980"), "{}", rows[0]);
        let after_a = &rows[1];
        assert_eq!(after_a.find('9'), Some(13));
        assert_eq!(rows[2].find('9'), Some(TWO));
        assert!(
            rows.iter()
                .all(|row| row.len() == SYMBOLS && row.bytes().all(|mark| mark.is_ascii_digit()))
        );
    }
}
