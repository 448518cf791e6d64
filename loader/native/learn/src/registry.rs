//! What the kinds of a template share: vocabularies and sets of shapes, by name; and their tables in it.

use std::fmt::Write as _;

use synth::vocabulary::{Case, Step};

use crate::letters::{LEAST_WORDS, Letters};
use crate::template::{decimal, key, quoted};
use crate::vocabulary::{Curve, Vocabulary};

/// So many vocabularies are looked at for the same words.
const MOST_COMPARED: usize = 400;

#[derive(Debug, Default)]
pub struct Registry {
    pub words: Vec<(String, Vocabulary)>,
    pub shapes: Vec<(String, Choice)>,
}

/// One of several texts.
#[derive(Debug)]
pub struct Choice {
    /// Texts with their weights.
    pub texts: Vec<(String, u64)>,
    /// So many distinct values are made of them, and drawn like that; else each draw makes a new one.
    pub phrases: Option<Curve>,
}

impl Registry {
    /// The name under which it can be found: that of one with the same words, or `stem` and a number.
    pub fn add_words(&mut self, stem: &str, vocabulary: Vocabulary) -> String {
        let same = self.words.iter_mut().rev().take(MOST_COMPARED);
        if let Some((name, known)) = same.into_iter().find(|(_, one)| one.is_like(&vocabulary)) {
            known.join(vocabulary);
            return name.clone();
        }
        let number = self.words.iter().filter(|(name, _)| is_of(name, stem)).count() + 1;
        let name = format!("{stem}-{number}");
        self.words.push((name.clone(), vocabulary));
        name
    }

    pub fn add_shapes(&mut self, stem: &str, choice: Choice) -> String {
        self.shapes.push((stem.to_owned(), choice));
        stem.to_owned()
    }
}

fn is_of(name: &str, stem: &str) -> bool {
    name.strip_prefix(stem)
        .and_then(|rest| rest.strip_prefix('-'))
        .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Vocabularies that have a table of letters of their own: those that most is drawn from.
const MOST_TABLES: usize = 24;
/// The table of all others together, and ours, where even these are too few.
const COMMON: &str = "common";
const OURS: &str = "latin";

pub fn write_registry(out: &mut String, registry: &Registry) {
    for (name, choice) in &registry.shapes {
        write_choice(out, name, choice);
    }
    let tables = Tables::new(registry);
    for (at, (name, vocabulary)) in registry.words.iter().enumerate() {
        let letters = if vocabulary.digits { "digits" } else { tables.of(at, name) };
        write_words(out, name, vocabulary, letters);
    }
    tables.write(out, registry);
}

fn write_choice(out: &mut String, name: &str, choice: &Choice) {
    let _ = writeln!(out, "\n[shapes.{}]", key(name));
    if let Some(curve) = &choice.phrases {
        let _ = writeln!(out, "distinct = {}\nranks = {}", curve.words, ranks(curve, false));
    }
    out.push_str("texts = [\n");
    for (text, weight) in &choice.texts {
        let _ = writeln!(out, "    {{ text = {}, weight = {weight} }},", quoted(text));
    }
    out.push_str("]\n");
}

fn write_words(out: &mut String, name: &str, vocabulary: &Vocabulary, letters: &str) {
    let case = match vocabulary.case {
        Case::Lower => "lower",
        Case::Capital => "capital",
        Case::Upper => "upper",
    };
    let _ = writeln!(out, "\n[words.{}]\ncount = {}", key(name), vocabulary.curve.words.max(1));
    let _ = writeln!(out, "lengths = {}", quoted(&vocabulary.lengths.told()));
    let _ = writeln!(out, "ranks = {}", ranks(&vocabulary.curve, true));
    let _ = writeln!(out, "letters = {}\ncase = \"{case}\"", quoted(letters));
    if vocabulary.ascii && !vocabulary.digits {
        out.push_str("ascii = true\n");
    }
}

/// Up to which rank, the share of what is drawn, the letters of a word on average.
fn ranks(curve: &Curve, letters: bool) -> String {
    let step = |step: &Step| {
        let share = decimal(step.share.max(0.000_000_1), 7);
        if letters {
            format!("[{}, {share}, {}]", step.to, decimal(step.letters, 2))
        } else {
            format!("[{}, {share}]", step.to)
        }
    };
    format!("[{}]", curve.steps.iter().map(step).collect::<Vec<_>>().join(", "))
}

/// Which vocabularies have tables of their own.
struct Tables {
    own: Vec<usize>,
    common: Letters,
}

impl Tables {
    fn new(registry: &Registry) -> Self {
        let words = || registry.words.iter().enumerate().filter(|(_, (_, one))| !one.digits);
        let mut own: Vec<usize> = words()
            .filter(|(_, (_, one))| one.letters.words >= LEAST_WORDS)
            .map(|(at, _)| at)
            .collect();
        own.sort_by_key(|&at| std::cmp::Reverse(registry.words[at].1.draws));
        own.truncate(MOST_TABLES);
        let mut common = Letters::default();
        words().for_each(|(_, (_, one))| common.merge(&one.letters));
        Self { own, common }
    }

    fn of<'n>(&self, at: usize, name: &'n str) -> &'n str {
        if self.own.contains(&at) {
            name
        } else if self.common.words >= LEAST_WORDS {
            COMMON
        } else {
            OURS
        }
    }

    fn write(&self, out: &mut String, registry: &Registry) {
        out.push_str(
            "\n# Which letter follows which: a row for the head of a word and for each of a to z, letters of two bytes\n\
             # and of three; in it a digit for each that follows, 9 the most frequent, one less half of it.\n",
        );
        for &at in &self.own {
            let (name, vocabulary) = &registry.words[at];
            write_letters(out, name, &vocabulary.letters);
        }
        if self.common.words >= LEAST_WORDS {
            write_letters(out, COMMON, &self.common);
        }
    }
}

fn write_letters(out: &mut String, name: &str, letters: &Letters) {
    let _ = writeln!(out, "\n[letters.{}]\nrows = [", key(name));
    for row in letters.rows() {
        let _ = writeln!(out, "    \"{row}\",");
    }
    out.push_str("]\n");
}
