//! The words of a token: their number, lengths and letters, and the share of draws of each rank.

use rustc_hash::FxHashMap;
use synth::vocabulary::{Case, Step};
use xxhash_rust::xxh3::xxh3_64;

use crate::histogram::Histogram;
use crate::letters::Letters;

/// If words that occurred once make up less than this share of all draws, the sample contains the whole vocabulary.
const SATURATED: f64 = 0.005;

#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Number of distinct words.
    pub words: u64,
    /// Steps of ranks, each with a share of all draws between 0 and 1.
    pub steps: Vec<Step>,
}

/// A word of the sample.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Word {
    count: u64,
    letters: u64,
}

/// Derives the share of draws of each rank. `distinct` is the number of distinct words, if that is known.
#[allow(clippy::cast_precision_loss, reason = "shares")]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
fn curve(mut words: Vec<Word>, distinct: Option<u64>) -> Curve {
    words.sort_unstable_by_key(|word| (std::cmp::Reverse(word.count), word.letters));
    let seen = words.len() as u64;
    let draws: u64 = words.iter().map(|word| word.count).sum();
    let once = words.iter().filter(|word| word.count == 1).count() as f64;
    let twice = words.iter().filter(|word| word.count == 2).count() as f64;
    let unseen_share = once / (draws.max(1) as f64);
    let saturated = unseen_share < SATURATED;
    // The number of unseen words is estimated from the words seen once and seen twice (Chao 1984).
    let unseen = if saturated { 0.0 } else { once * (once - 1.0).max(0.0) / (2.0 * (twice + 1.0)) };
    let all = distinct.unwrap_or(seen + unseen as u64).max(seen);
    let kept = if all > seen { 1.0 - unseen_share } else { 1.0 };
    let mut steps = Vec::new();
    let (mut from, mut cumulated) = (0, 0.0);
    while from < seen {
        let to = next(from).min(seen);
        let inside = &words[from as usize..to as usize];
        let count: u64 = inside.iter().map(|word| word.count).sum();
        let letters: u64 = inside.iter().map(|word| word.count * word.letters).sum();
        let share = count as f64 / draws.max(1) as f64 * kept;
        cumulated += share;
        steps.push(Step { to, share, letters: letters as f64 / count.max(1) as f64 });
        from = to;
    }
    if all > seen {
        let letters = steps.last().map_or(1.0, |step| step.letters);
        steps.push(Step { to: all, share: (1.0 - cumulated).max(0.0), letters });
    }
    Curve { words: all, steps }
}

/// Returns the end of the step that begins at `rank`. Steps end at powers of two and halfway between them: 1 2 3 4 6 8
/// 12 16 24 ...
fn next(rank: u64) -> u64 {
    if rank < 4 {
        return rank + 1;
    }
    let power = 1 << rank.ilog2();
    if rank < power + power / 2 { power + power / 2 } else { power * 2 }
}

#[derive(Debug, Clone)]
pub struct Vocabulary {
    pub curve: Curve,
    /// Lengths of the distinct words, in letters.
    pub lengths: Histogram,
    pub letters: Letters,
    pub case: Case,
    /// Whether all words consist of the letters a to z.
    pub ascii: bool,
    /// Whether the words are numbers.
    pub digits: bool,
    /// Number of draws from which the vocabulary was learned.
    pub draws: u64,
    /// Whether at most a tenth of the draws are words that occurred once, so that more draws would yield few new words.
    covered: bool,
    /// Hashes of the words in ascending order.
    hashes: Vec<u64>,
}

/// A vocabulary with fewer words than this is never joined with another, because words may be equal by chance.
const LEAST_LIKE: usize = 20;
/// Maximum number of words of the smaller vocabulary that are searched for in the larger vocabulary.
const LOOKED_UP: usize = 200;

impl Vocabulary {
    /// Whether two vocabularies are the same. Nearly all words of the smaller vocabulary must be in the larger one.
    /// Also, their sizes must be similar, or the smaller vocabulary was learned from few draws.
    pub fn is_like(&self, other: &Self) -> bool {
        let (small, large) = if self.hashes.len() < other.hashes.len() { (self, other) } else { (other, self) };
        if self.digits != other.digits || self.ascii != other.ascii || small.hashes.len() < LEAST_LIKE {
            return false;
        }
        let few = !small.covered && small.draws * 4 < large.draws;
        if !few && small.hashes.len() * 10 < large.hashes.len() * 7 {
            return false;
        }
        let looked_up = small.hashes.iter().take(LOOKED_UP);
        let shared = looked_up.filter(|hash| large.hashes.binary_search(hash).is_ok()).count();
        shared * 100 >= small.hashes.len().min(LOOKED_UP) * 85
    }

    /// Keeps whichever of two equal vocabularies was learned from more draws.
    pub fn join(&mut self, other: Self) {
        let draws = self.draws + other.draws;
        if other.draws > self.draws {
            *self = other;
        }
        self.draws = draws;
    }
}

/// The words of a token in the sample.
#[derive(Debug, Default)]
pub struct Words {
    /// Number of draws of each word, in lower case.
    counts: FxHashMap<String, u64>,
    /// Number of draws in each [`Case`].
    cases: [u64; 3],
    pub draws: u64,
    /// Lengths of the words in letters, weighted by draws.
    pub lengths: Histogram,
    /// Number of draws with a leading zero. A single `0` does not count.
    pub zeros: u64,
}

impl Words {
    pub fn add(&mut self, word: &str) {
        self.draws += 1;
        self.lengths.add(word.chars().count() as u64);
        self.zeros += u64::from(word.len() > 1 && word.starts_with('0'));
        self.cases[case(word) as usize] += 1;
        *self.counts.entry(word.to_lowercase()).or_default() += 1;
    }

    pub fn distinct(&self) -> u64 {
        self.counts.len() as u64
    }

    /// Whether at most one draw in 10,000 repeats a word. Random numbers repeat more often, even from a large range.
    pub fn is_unique(&self) -> bool {
        self.draws >= 20 && (self.draws - self.distinct()) * 10_000 <= self.draws
    }

    /// Whether at most one draw in 50 is a word that occurred once, so that more draws would yield few new words.
    pub fn is_saturated(&self) -> bool {
        self.once() * 50 <= self.draws
    }

    /// Returns the number of words that occurred once.
    fn once(&self) -> u64 {
        self.counts.values().filter(|count| **count == 1).count() as u64
    }

    pub fn vocabulary(&self, digits: bool, distinct: Option<u64>) -> Vocabulary {
        let letters_of = |word: &str| word.chars().count() as u64;
        let words = self.counts.iter();
        let words = words.map(|(word, &count)| Word { count, letters: letters_of(word) }).collect();
        let (mut lengths, mut letters) = (Histogram::default(), Letters::default());
        for word in self.counts.keys() {
            lengths.add(letters_of(word));
            letters.word(word);
        }
        let mut hashes: Vec<u64> = self.counts.keys().map(|word| xxh3_64(word.as_bytes())).collect();
        hashes.sort_unstable();
        let cases = [Case::Lower, Case::Capital, Case::Upper];
        let case = cases.into_iter().max_by_key(|case| self.cases[*case as usize]);
        Vocabulary {
            curve: curve(words, distinct),
            lengths,
            letters,
            case: case.unwrap_or(Case::Lower),
            ascii: self.counts.keys().all(|word| word.is_ascii()),
            digits,
            draws: self.draws,
            covered: self.once() * 10 <= self.draws,
            hashes,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn words(counts: impl IntoIterator<Item = u64>) -> Vec<Word> {
        counts.into_iter().map(|count| Word { count, letters: 5 }).collect()
    }

    #[test]
    fn a_vocabulary_that_was_sampled_completely() {
        let found = curve(words((1..=100).map(|rank| 100_000 / rank)), None);
        assert_eq!(found.words, 100);
        let first = found.steps[0];
        assert!(first.to == 1 && (first.share - 0.193).abs() < 0.01, "{first:?}");
        let sum: f64 = found.steps.iter().map(|step| step.share).sum();
        assert!((sum - 1.0).abs() < 1e-9 && found.steps.last().unwrap().to == 100);
    }

    #[test]
    fn unseen_words_are_estimated() {
        // 10,000 draws of 20,000 equally likely words: 6,065 once, 1,516 twice, 252 three times.
        let counts = [vec![1; 6065], vec![2; 1516], vec![3; 252]].concat();
        let found = curve(words(counts), None);
        assert!((17_000..23_000).contains(&found.words), "{}", found.words);
    }

    #[test]
    fn steps_grow_with_the_rank() {
        let mut rank = 0;
        let found = std::iter::from_fn(|| {
            rank = next(rank);
            Some(rank)
        })
        .take(10);
        assert_eq!(found.collect::<Vec<_>>(), [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]);
    }
}
