//! What the kinds of a template share: vocabularies and sets of shapes, by name.

use crate::curve::Curve;
use crate::vocabulary::Vocabulary;

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
    /// The name under which it can be found: `stem` and a number.
    pub fn add_words(&mut self, stem: &str, vocabulary: Vocabulary) -> String {
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
