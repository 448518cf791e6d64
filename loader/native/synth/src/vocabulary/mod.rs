//! What templates say that were learned from a real tree: words that nobody wrote, drawn as often as the real ones.
//!
//! Word k of a vocabulary follows from the vocabulary's name and k. Which k is drawn, its ranks say: steps of them with
//! their share of all draws. Small vocabularies are made once, so that no two words are the same.

pub mod letters;
mod words;

use std::sync::Arc;

use crate::model::Text;

pub use letters::Letters;
pub use words::{Case, Ranks, Step, Vocabulary, Words};

#[derive(Debug, Clone, Default)]
pub struct Learned {
    pub vocabularies: Vec<Arc<Vocabulary>>,
    pub shapes: Vec<Arc<Shape>>,
}

/// One of several texts.
#[derive(Debug, Clone)]
pub struct Shape {
    pub name: String,
    /// With their weights.
    pub texts: Vec<(Text, f64)>,
    /// So many distinct values are made of them; without it every draw makes another one.
    pub phrases: Option<Ranks>,
}
