//! Counts which letter follows which in a vocabulary, so coarsely that no word can be reconstructed.

use rustc_hash::FxHashSet;
use synth::vocabulary::letters::{self, Letters as Table};

use crate::histogram::Histogram;

/// The letters a to z, one symbol for all letters of two bytes, and one symbol for all longer letters.
const SYMBOLS: usize = letters::SYMBOLS;
const TWO_BYTES: usize = 26;
const MORE_BYTES: usize = 27;
/// A vocabulary with fewer distinct words gets no table of its own.
pub const LEAST_WORDS: u64 = 200;
/// A pair that occurs less often than this is ignored.
const LEAST_PAIR: u32 = 2;
/// The digit of the most frequent pair in a row. Each step down means half the frequency.
const TOP: u32 = 9;
/// Least and greatest exponent that sharpens the rows, and number of bisection steps that find the exponent.
const BLUNTEST: f64 = 0.5;
const SHARPEST: f64 = 4.0;
const HALVINGS: u32 = 6;

/// Counts of letter pairs: row 0 has the first letters of words, row s+1 the letters after symbol s.
#[derive(Debug, Clone, Default)]
pub struct Letters {
    /// Number of distinct words.
    pub words: u64,
    pairs: Box<[[u32; SYMBOLS]; SYMBOLS + 1]>,
    /// The distinct sequences of four letters or word ends, as in the keys of a substring index.
    sequences: FxHashSet<u32>,
    lengths: Histogram,
}

impl Letters {
    /// Counts a word. The caller passes each distinct word once.
    pub fn word(&mut self, word: &str) {
        self.words += 1;
        let (mut row, mut letters) = (0, 0);
        for symbol in word.chars().filter_map(symbol) {
            self.pairs[row][symbol] += 1;
            row = symbol + 1;
            letters += 1;
        }
        self.lengths.add(letters);
        self.sequences.extend(sequences(word));
    }

    pub fn merge(&mut self, other: &Self) {
        self.words += other.words;
        self.lengths.merge(&other.lengths);
        self.sequences.extend(&other.sequences);
        for (mine, theirs) in self.pairs.iter_mut().zip(other.pairs.iter()) {
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine += theirs);
        }
    }

    /// Returns the rows of the table: one for the beginning of a word, and one for each symbol. A row has a digit for
    /// each next symbol, as [`Table::new`] expects.
    ///
    /// Words that are generated from pairs are more varied than the real words. So the rows are sharpened until the
    /// same number of generated words has as many distinct sequences of four letters as the real words.
    pub fn rows(&self) -> Vec<String> {
        let rows = |sharpness: f64| -> Vec<String> { self.pairs.iter().map(|row| marks(row, sharpness)).collect() };
        let real = self.sequences.len();
        let (mut blunt, mut sharp) = (BLUNTEST, SHARPEST);
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(blunt, sharp);
            if self.generated(&rows(middle)) > real { blunt = middle } else { sharp = middle }
        }
        rows(f64::midpoint(blunt, sharp))
    }

    /// Generates as many words as the vocabulary has. Returns the number of distinct sequences in these words.
    fn generated(&self, rows: &[String]) -> usize {
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        let Some(table) = Table::new(&rows) else { return 0 };
        let (mut words, mut distinct) = (FxHashSet::default(), FxHashSet::default());
        let mut number = 0;
        for bucket in self.lengths.buckets() {
            for _ in 0..bucket.count {
                number += 1;
                let word = new_word(&table, number, bucket.low, &mut words);
                distinct.extend(sequences(&String::from_utf8_lossy(&word)));
            }
        }
        distinct.len()
    }
}

/// Generates a word that is not in `known`, unless all attempts fail.
fn new_word(table: &Table, number: u64, letters: u64, known: &mut FxHashSet<Vec<u8>>) -> Vec<u8> {
    const TRIES: u64 = 4;
    let mut word = Vec::new();
    for turn in 0..TRIES {
        word.clear();
        table.walk(synth::draw::again(number, turn + 1), letters, false, &mut word);
        if known.insert(word.clone()) {
            break;
        }
    }
    word
}

/// Returns each sequence of four symbols, packed into a number. The symbol `END` marks both ends of the word.
fn sequences(word: &str) -> impl Iterator<Item = u32> {
    const END: u32 = 31;
    const FOUR: u32 = (1 << 20) - 1;
    let symbols = word.chars().filter_map(symbol).filter_map(|symbol| u32::try_from(symbol).ok());
    let mut four = 0;
    let packed = [END].into_iter().chain(symbols).chain([END]).map(move |symbol| {
        four = (four << 5 | symbol) & FOUR;
        four
    });
    packed.skip(3)
}

/// Converts each count in a row to a digit. A higher `sharpness` makes rare letters rarer.
fn marks(row: &[u32; SYMBOLS], sharpness: f64) -> String {
    let most = row.iter().copied().max().unwrap_or(0);
    let mark = |&count: &u32| {
        if count < LEAST_PAIR {
            return '0';
        }
        let less = ((f64::from(most) / f64::from(count)).log2() * sharpness).round();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
        let mark = TOP.saturating_sub(less as u32);
        char::from_digit(mark, 10).unwrap_or('0')
    };
    row.iter().map(mark).collect()
}

/// Returns the symbol of a letter, or None for an ASCII character that is not a letter.
fn symbol(letter: char) -> Option<usize> {
    match letter {
        'a'..='z' => Some(letter as usize - 'a' as usize),
        'A'..='Z' => Some(letter as usize - 'A' as usize),
        _ if letter.is_ascii() => None,
        _ if letter.len_utf8() == 2 => Some(TWO_BYTES),
        _ => Some(MORE_BYTES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_reveal_only_pairs() {
        let mut letters = Letters::default();
        for word in ["anna", "Anne", "anton", "bé", "bé"] {
            letters.word(word);
        }
        let rows = letters.rows();
        assert_eq!(rows.len(), SYMBOLS + 1);
        assert!(rows[0].starts_with('9'), "{}", rows[0]);
        let after_a = &rows[1];
        assert_eq!(after_a.find('9'), Some(13));
        assert_eq!(rows[2].find('9'), Some(TWO_BYTES));
        assert!(rows.iter().all(|row| row.len() == SYMBOLS && row.bytes().all(|mark| mark.is_ascii_digit())));
    }
}
