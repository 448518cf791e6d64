//! Counts which letter follows which in a vocabulary, so coarsely that no word can be reconstructed.

use rustc_hash::FxHashSet;
use synth::vocabulary::letters::{self, Letters as Table};

use crate::histogram::Histogram;

/// a to z, then all two-byte letters, then all longer ones.
const SYMBOLS: usize = letters::SYMBOLS;
const TWO: usize = 26;
const THREE: usize = 27;
/// A vocabulary with fewer distinct words gets no table of its own.
pub const LEAST_WORDS: u64 = 200;
/// Pairs in fewer words than this are left out.
const LEAST_PAIR: u32 = 2;
/// The highest mark of a row; each one less is half as frequent.
const TOP: u32 = 9;
/// Range of the exponent that sharpens the counted rows, and the number of steps of the search for it.
const BLUNTEST: f64 = 0.5;
const SHARPEST: f64 = 4.0;
const HALVINGS: u32 = 6;

/// Counts of letter pairs: row 0 is the beginning of a word, row s+1 what follows symbol s.
#[derive(Debug, Clone)]
pub struct Letters {
    /// Number of distinct words.
    pub words: u64,
    pairs: Box<[[u32; SYMBOLS]; SYMBOLS + 1]>,
    /// Sequences of four letters, including the ends of words: the keys of substring indexes.
    sequences: FxHashSet<u32>,
    lengths: Histogram,
}

impl Default for Letters {
    fn default() -> Self {
        Self {
            words: 0,
            pairs: Box::new([[0; SYMBOLS]; SYMBOLS + 1]),
            sequences: FxHashSet::default(),
            lengths: Histogram::default(),
        }
    }
}

impl Letters {
    /// Counts a word, which must be distinct.
    pub fn word(&mut self, word: &str) {
        self.words += 1;
        let (mut row, mut letters) = (0, 0);
        for symbol in word.chars().filter_map(symbol) {
            self.pairs[row][symbol] += 1;
            row = symbol + 1;
            letters += 1;
        }
        self.lengths.add(letters);
        each_sequence(word, |four| {
            self.sequences.insert(four);
        });
    }

    pub fn merge(&mut self, other: &Self) {
        self.words += other.words;
        self.lengths.merge(&other.lengths);
        self.sequences.extend(&other.sequences);
        for (mine, theirs) in self.pairs.iter_mut().zip(other.pairs.iter()) {
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine += theirs);
        }
    }

    /// One row per symbol, with a digit for each possible follower: 9 for the most frequent, 0 for rare or none.
    ///
    /// Pairs alone would make words more varied than real ones, so the rows are sharpened until the same number of
    /// generated words has as many distinct sequences of four letters.
    pub fn rows(&self) -> Vec<String> {
        let rows = |sharpness: f64| -> Vec<String> {
            self.pairs.iter().map(|row| marks(row, sharpness)).collect()
        };
        let wanted = self.sequences.len();
        let (mut blunt, mut sharp) = (BLUNTEST, SHARPEST);
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(blunt, sharp);
            if self.made(&rows(middle)) > wanted { blunt = middle } else { sharp = middle }
        }
        rows(f64::midpoint(blunt, sharp))
    }

    /// Counts the distinct sequences in as many words generated from these rows.
    fn made(&self, rows: &[String]) -> usize {
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        let Some(table) = Table::new(&rows) else { return 0 };
        let (mut words, mut sequences) = (FxHashSet::default(), FxHashSet::default());
        let mut number = 0;
        for bucket in self.lengths.buckets() {
            for _ in 0..bucket.count {
                number += 1;
                let word = new_word(&table, number, bucket.low, &mut words);
                each_sequence(&String::from_utf8_lossy(&word), |four| {
                    sequences.insert(four);
                });
            }
        }
        sequences.len()
    }
}

/// Generates a word that is not in `known`, if the attempts suffice.
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

/// Calls `see` with each four symbols as one number; all ends of a word are the same symbol.
fn each_sequence(word: &str, mut see: impl FnMut(u32)) {
    const END: u32 = 31;
    const FOUR: u32 = (1 << 20) - 1;
    let symbols = word.chars().filter_map(symbol).filter_map(|symbol| u32::try_from(symbol).ok());
    let mut four = 0;
    for (at, symbol) in [END].into_iter().chain(symbols).chain([END]).enumerate() {
        four = (four << 5 | symbol) & FOUR;
        if at >= 3 {
            see(four);
        }
    }
}

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

/// Letters without case or outside of a to z are classed by their length in bytes.
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
        assert!(rows[0].starts_with('9'), "{}", rows[0]);
        let after_a = &rows[1];
        assert_eq!(after_a.find('9'), Some(13));
        assert_eq!(rows[2].find('9'), Some(TWO));
        assert!(
            rows.iter()
                .all(|row| row.len() == SYMBOLS && row.bytes().all(|mark| mark.is_ascii_digit()))
        );
    }
}
