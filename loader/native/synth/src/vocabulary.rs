//! Vocabularies learned from a real tree: invented words that are as frequent as the real words.
//!
//! The word of a rank follows from the vocabulary's name and the rank. [`Ranks`] say how often each rank is drawn. The
//! words of a small vocabulary are generated in advance, so that all of them differ.

pub mod letters;

use std::fmt;
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashSet;

pub use letters::Letters;

use crate::distribution::{Distribution, Sampler};
use crate::draw::{Stream, again, below, unit};
use crate::model::Text;

/// Vocabularies of up to this many words are generated in advance, without duplicates.
const LISTED: u64 = 1 << 16;
/// Maximum number of attempts to generate a distinct word. Every fourth attempt adds a letter.
const TRIES: u64 = 32;
/// Maximum length of a word in letters. A vocabulary with longer words is refused.
const LONGEST: u64 = 4096;

#[derive(Debug, Clone, Default)]
pub struct Learned {
    pub vocabularies: Vec<Arc<Vocabulary>>,
    pub shapes: Vec<Arc<Shape>>,
}

/// A set of texts. Each draw chooses a text by its weight.
#[derive(Debug, Clone)]
pub struct Shape {
    pub name: String,
    /// The texts with their weights.
    pub texts: Vec<(Text, f64)>,
    /// The frequencies of the distinct values. None if every draw generates a new value.
    pub phrases: Option<Ranks>,
}

/// The definition of a vocabulary in a template.
#[derive(Debug, Clone, PartialEq)]
pub struct Words {
    pub name: String,
    pub count: u64,
    /// Distribution of the word length in letters.
    pub lengths: Distribution,
    pub ranks: Ranks,
    /// None if the words are numbers.
    pub letters: Option<Arc<Letters>>,
    pub case: Case,
    /// Whether the words have only the letters a to z.
    pub ascii: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    Lower,
    Capital,
    Upper,
}

/// The probability of each rank.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranks(Vec<Step>);

/// A step of [`Ranks`]: the ranks from the previous `to` up to, but not including, `to`. `share` is their share of all
/// draws, and `letters` the mean length of their words.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    pub to: u64,
    pub share: f64,
    pub letters: f64,
}

impl Ranks {
    /// Scales the shares to a sum of 1. Returns an error unless the steps ascend and have shares.
    pub fn new(mut steps: Vec<Step>) -> Result<Self, String> {
        let sum: f64 = steps.iter().map(|step| step.share).sum();
        let ascending = steps.windows(2).all(|pair| pair[0].to < pair[1].to);
        let first = steps.first().is_some_and(|step| step.to > 0);
        let sound = |step: &Step| (0.0..=1e9).contains(&step.share) && (0.0..=1e6).contains(&step.letters);
        if !first || !ascending || !steps.iter().all(sound) || sum <= 0.0 {
            return Err("ranks must ascend, each with its share".to_owned());
        }
        let mut cumulated = 0.0;
        for step in &mut steps {
            cumulated += step.share / sum;
            step.share = cumulated;
        }
        Ok(Self(steps))
    }

    /// Draws a rank, counted from 0.
    pub fn draw(&self, bits: u64) -> u64 {
        let at = unit(bits);
        let step = self.0.partition_point(|step| step.share <= at).min(self.0.len() - 1);
        let from = if step == 0 { 0 } else { self.0[step - 1].to };
        from + below(again(bits, 1), self.0[step].to - from)
    }

    /// Returns the exclusive upper bound of the ranks.
    pub fn end(&self) -> u64 {
        self.0.last().map_or(0, |step| step.to)
    }

    /// Returns the mean word length, in letters, in the step to which a rank belongs.
    fn letters(&self, rank: u64) -> f64 {
        let step = self.0.partition_point(|step| step.to <= rank).min(self.0.len() - 1);
        self.0[step].letters
    }
}

/// A compiled vocabulary.
pub struct Vocabulary {
    words: Words,
    lengths: Sampler,
    /// The mean of `lengths`.
    mean: f64,
    stream: Stream,
    listed: OnceLock<Listed>,
}

/// All words of a small vocabulary; `ends` are their end offsets in `text`.
struct Listed {
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Vocabulary {
    pub fn new(words: Words) -> Result<Self, String> {
        let lengths = words.lengths.drawer()?;
        if words.lengths.most() > LONGEST || words.count == 0 {
            return Err(format!("words have up to {LONGEST} letters, and there must be one"));
        }
        let stream = Stream::new(0, &["words", &words.name]);
        let mean = mean(&lengths, stream);
        Ok(Self { words, lengths, mean, stream, listed: OnceLock::new() })
    }

    pub fn name(&self) -> &str {
        &self.words.name
    }

    /// Returns the number of words that are generated in advance and kept in memory.
    pub fn listed(&self) -> u64 {
        if self.words.count > LISTED { 0 } else { self.words.count }
    }

    /// Returns the maximum length of a word in bytes.
    pub fn most(&self) -> u64 {
        let longest_mean = self.words.ranks.0.iter().map(|step| step.letters).fold(0.0, f64::max);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a length")]
        let letters = self.words.lengths.most() + longest_mean.ceil() as u64 + TRIES;
        if self.is_ascii() { letters } else { letters * 3 }
    }

    pub fn is_ascii(&self) -> bool {
        self.words.ascii || self.words.letters.is_none()
    }

    /// Appends the word of the rank that `bits` select.
    pub fn draw(&self, bits: u64, out: &mut Vec<u8>) {
        self.word(self.words.ranks.draw(bits) % self.words.count, out);
    }

    /// Appends the word of a rank, counted from 0.
    fn word(&self, rank: u64, out: &mut Vec<u8>) {
        if self.words.count > LISTED {
            return self.generate(rank, 0, out);
        }
        let listed = self.listed.get_or_init(|| self.list());
        let at = usize::try_from(rank).unwrap_or(0);
        let start = if at == 0 { 0 } else { listed.ends[at - 1] };
        out.extend_from_slice(&listed.text[start..listed.ends[at]]);
    }

    /// Appends a word for `number`. No other number below `count` gets the same word.
    pub fn new_word(&self, bits: u64, number: u64, count: u64, out: &mut Vec<u8>) {
        let start = out.len();
        let letters = self.lengths.draw(bits);
        match &self.words.letters {
            Some(table) => table.counted(bits, letters, (number, count), self.words.ascii, out),
            None => crate::tags::digits::decimal(out, number, 0),
        }
        self.set_case(&mut out[start..]);
    }

    /// Generates all words. They are distinct, unless all attempts for a word fail.
    fn list(&self) -> Listed {
        let (mut text, mut ends, mut known) = (Vec::new(), Vec::new(), FxHashSet::default());
        for rank in 0..self.words.count {
            let start = text.len();
            for turn in 0..TRIES {
                text.truncate(start);
                self.generate(rank, turn, &mut text);
                if known.insert(text[start..].to_vec()) {
                    break;
                }
            }
            ends.push(text.len());
        }
        Listed { text, ends }
    }

    /// Appends the word that attempt `turn` generates for a rank.
    fn generate(&self, rank: u64, turn: u64, out: &mut Vec<u8>) {
        let start = out.len();
        let bits = again(self.stream.at(rank), turn);
        let letters = self.length(rank, bits) + turn / 4;
        match &self.words.letters {
            Some(table) => _ = table.walk(bits, letters, self.words.ascii, out),
            None => number(bits, letters, out),
        }
        self.set_case(&mut out[start..]);
    }

    /// Draws a word length from `lengths`, shifted by the difference between the mean of the rank's step and the
    /// overall mean.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some letters")]
    #[allow(clippy::cast_precision_loss, reason = "some letters")]
    fn length(&self, rank: u64, bits: u64) -> u64 {
        let drawn = self.lengths.draw(again(bits, 1)) as f64;
        let shifted = drawn + self.words.ranks.letters(rank) - self.mean;
        (shifted + unit(again(bits, 2))).floor().max(1.0) as u64
    }

    fn set_case(&self, word: &mut [u8]) {
        match self.words.case {
            Case::Lower => {}
            Case::Capital => word.iter_mut().take(1).for_each(u8::make_ascii_uppercase),
            Case::Upper => word.make_ascii_uppercase(),
        }
    }
}

/// Appends a number of this many digits. The first of several digits is not 0.
fn number(bits: u64, digits: u64, out: &mut Vec<u8>) {
    for turn in 0..digits {
        let bits = again(bits, turn + 3);
        let digit = if turn == 0 && digits > 1 { 1 + below(bits, 9) } else { below(bits, 10) };
        out.push(b'0' + u8::try_from(digit).unwrap_or(0));
    }
}

#[allow(clippy::cast_precision_loss, reason = "a mean")]
fn mean(lengths: &Sampler, stream: Stream) -> f64 {
    const DRAWS: u64 = 4096;
    (0..DRAWS).map(|number| lengths.draw(stream.part(1).at(number)) as f64).sum::<f64>() / DRAWS as f64
}

/// Prints only the definition; the rest is derived from it.
impl fmt::Debug for Vocabulary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.words.fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::letters::LATIN;

    fn vocabulary(count: u64, letters: bool) -> Vocabulary {
        let step = |to, share, letters| Step { to, share, letters };
        let steps = vec![step(1, 0.5, 3.0), step(count, 0.5, 6.0)];
        let letters = letters.then(|| Arc::new(Letters::new(&LATIN).unwrap()));
        Vocabulary::new(Words {
            name: "some".to_owned(),
            count,
            lengths: Distribution::Between { low: 5, high: 7 },
            ranks: Ranks::new(steps).unwrap(),
            letters,
            case: Case::Capital,
            ascii: true,
        })
        .unwrap()
    }

    fn text(vocabulary: &Vocabulary, rank: u64) -> String {
        let mut out = Vec::new();
        vocabulary.word(rank, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn words_are_distinct_and_the_same_every_time() {
        for letters in [true, false] {
            let (one, other) = (vocabulary(2000, letters), vocabulary(2000, letters));
            let mut words: Vec<String> = (0..2000).map(|rank| text(&one, rank)).collect();
            assert!(words.iter().all(|word| word.is_ascii()));
            assert_eq!(words[7], text(&other, 7));
            words.sort();
            words.dedup();
            assert_eq!(words.len(), 2000);
        }
    }

    #[test]
    fn frequent_words_have_their_own_length() {
        let some = vocabulary(500, true);
        let letters = |rank| f64::from(u32::try_from(text(&some, rank).chars().count()).unwrap());
        let mean = (1..500).map(letters).sum::<f64>() / 499.0;
        assert!((5.7..6.4).contains(&mean), "{mean}");
        assert!(letters(0) <= 4.0);
    }

    #[test]
    fn ranks_are_drawn_by_their_shares() {
        let some = vocabulary(100, true);
        let stream = Stream::new(1, &["test"]);
        let first = (0..10_000).filter(|&at| some.words.ranks.draw(stream.at(at)) == 0).count();
        assert!((4_700..5_300).contains(&first), "{first}");
        assert!((0..10_000).all(|at| some.words.ranks.draw(stream.at(at)) < 100));
    }

    #[test]
    fn invalid_ranks_are_refused() {
        let step = |to, share| Step { to, share, letters: 1.0 };
        for steps in
            [vec![], vec![step(0, 1.0)], vec![step(2, 1.0), step(2, 1.0)], vec![step(1, f64::NAN)], vec![step(1, 0.0)]]
        {
            assert!(Ranks::new(steps).is_err());
        }
    }
}
