//! The words that stand in one place of a value: how many, how long, how skewed, of what letters.

use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_64;

use crate::curve::{Curve, Word, curve};
use crate::histogram::Histogram;
use crate::letters::Letters;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    Lower,
    Capital,
    Upper,
}

#[derive(Debug, Clone)]
pub struct Vocabulary {
    pub curve: Curve,
    /// Letters of a distinct word.
    pub lengths: Histogram,
    pub letters: Letters,
    pub case: Case,
    /// No word has other letters than a to z.
    pub ascii: bool,
    /// Numbers rather than words.
    pub digits: bool,
    /// Draws it was learned from.
    pub draws: u64,
    /// More draws would bring few words that were not seen.
    covered: bool,
    /// Hashes of its words, ascending.
    known: Vec<u64>,
}

/// Fewer words than these are alike by chance.
const LEAST_LIKE: usize = 20;
/// So many words of the smaller vocabulary are looked up in the larger one.
const LOOKED_UP: usize = 200;

impl Vocabulary {
    /// Nearly all words of the smaller one are words of the other, and their numbers do not differ much, or only since
    /// few draws of it were seen.
    pub fn is_like(&self, other: &Self) -> bool {
        let (small, large) =
            if self.known.len() < other.known.len() { (self, other) } else { (other, self) };
        if self.digits != other.digits
            || self.ascii != other.ascii
            || small.known.len() < LEAST_LIKE
        {
            return false;
        }
        let few = !small.covered && small.draws * 4 < large.draws;
        if !few && small.known.len() * 10 < large.known.len() * 7 {
            return false;
        }
        let looked_up = small.known.iter().take(LOOKED_UP);
        let found = looked_up.filter(|hash| large.known.binary_search(hash).is_ok()).count();
        found * 100 >= small.known.len().min(LOOKED_UP) * 85
    }

    /// That of which more was seen tells for both.
    pub fn join(&mut self, other: Self) {
        let draws = self.draws + other.draws;
        if other.draws > self.draws {
            *self = other;
        }
        self.draws = draws;
    }
}

/// Words as they are met.
#[derive(Debug, Default)]
pub struct Words {
    counts: FxHashMap<String, u64>,
    cases: [u64; 3],
    pub draws: u64,
    /// Letters of a word, by draws.
    pub lengths: Histogram,
    /// Numbers that begin with a zero.
    pub zeros: u64,
}

impl Words {
    pub fn add(&mut self, word: &str) {
        self.draws += 1;
        self.lengths.add(word.chars().count() as u64);
        self.zeros += u64::from(word.len() > 1 && word.starts_with('0'));
        self.cases[case(word) as usize] += 1;
        let lower = word.to_lowercase();
        *self.counts.entry(lower).or_default() += 1;
    }

    pub fn distinct(&self) -> u64 {
        self.counts.len() as u64
    }

    /// Hardly one came twice; a large range of random numbers has more of these.
    pub fn is_unique(&self) -> bool {
        self.draws >= 20 && (self.draws - self.distinct()) * 10_000 <= self.draws
    }

    /// More draws would bring few new ones.
    pub fn is_saturated(&self) -> bool {
        self.once() * 50 <= self.draws
    }

    fn once(&self) -> u64 {
        self.counts.values().filter(|count| **count == 1).count() as u64
    }

    pub fn vocabulary(&self, digits: bool, known: Option<u64>) -> Vocabulary {
        let letters_of = |word: &str| word.chars().count() as u64;
        let words = self.counts.iter();
        let words = words.map(|(word, &count)| Word { count, letters: letters_of(word) }).collect();
        let (mut lengths, mut letters) = (Histogram::default(), Letters::default());
        for word in self.counts.keys() {
            lengths.add(letters_of(word));
            letters.word(word);
        }
        let mut hashes: Vec<u64> =
            self.counts.keys().map(|word| xxh3_64(word.as_bytes())).collect();
        hashes.sort_unstable();
        let cases = [Case::Lower, Case::Capital, Case::Upper];
        let case = cases.into_iter().max_by_key(|case| self.cases[*case as usize]);
        Vocabulary {
            curve: curve(words, known),
            lengths,
            letters,
            case: case.unwrap_or(Case::Lower),
            ascii: self.counts.keys().all(|word| word.is_ascii()),
            digits,
            draws: self.draws,
            covered: self.once() * 10 <= self.draws,
            known: hashes,
        }
    }
}

fn case(word: &str) -> Case {
    let mut letters = word.chars();
    if !letters.next().is_some_and(char::is_uppercase) {
        return Case::Lower;
    }
    if word.len() > 1 && letters.all(char::is_uppercase) { Case::Upper } else { Case::Capital }
}
