//! What the kinds of a template share: vocabularies and sets of shapes, by name.

use crate::curve::Curve;
use crate::vocabulary::Vocabulary;

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
