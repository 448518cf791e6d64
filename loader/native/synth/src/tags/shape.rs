//! Chooses one of the texts of a shape. If `phrases` limits the number of distinct values, the same values recur.

use std::sync::OnceLock;

use rustc_hash::FxHashSet;

use super::{EntryContext, Scope, index_of};
use crate::body::Text;
use crate::compile::items;
use crate::distribution::Alias;
use crate::draw::{Stream, again};
use crate::vocabulary::Ranks;

/// Only phrases of ranks below this number are made distinct. Other phrases may repeat.
const MOST_DISTINCT: u64 = 1 << 16;
/// Maximum number of attempts to generate a distinct phrase.
const TRIES: u8 = 16;

#[derive(Debug)]
pub struct Shape {
    stream: Stream,
    alias: Alias,
    texts: Vec<Text>,
    phrases: Option<Ranks>,
    /// For each phrase, the number of the attempt that generated a distinct text.
    tries: OnceLock<Vec<u8>>,
}

impl Shape {
    pub fn new(name: &str, scope: &Scope<'_>) -> Result<Self, String> {
        if scope.in_shape {
            return Err(format!("shape {name:?} is used in a shape"));
        }
        let all = &scope.learned.shapes;
        let what = format_args!("shape {name:?} in [shapes]");
        let declared = &all[index_of(name, all.iter().map(|shape| shape.name.as_str()), what)?];
        let weights: Vec<f64> = declared.texts.iter().map(|(_, weight)| *weight).collect();
        let alias = Alias::new(&weights).ok_or("weights must be above 0")?;
        let texts = declared.texts.iter().enumerate().map(|(number, (text, _))| {
            let stream = scope.stream.part(number as u64 + 1);
            items::text(text, |piece| Scope { stream: stream.part(piece as u64), in_shape: true, ..*scope })
        });
        Ok(Self {
            stream: scope.stream,
            alias,
            texts: texts.collect::<Result<_, _>>()?,
            phrases: declared.phrases.clone(),
            tries: OnceLock::new(),
        })
    }

    /// Writes a text that is chosen for the entry.
    fn draw(&self, at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        let text = self.alias.pick(at.bits(self.stream.part(0)));
        self.texts[text].write(at, out);
    }

    /// Writes the text that attempt `turn` generates for phrase `number`.
    fn phrase(&self, number: u64, turn: u8, at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        let index = number + (u64::from(turn) << 40);
        let names = &mut *at.names;
        self.draw(&mut EntryContext { index, occurrence: 0, names, ..*at }, out);
    }

    fn find_tries(&self, count: u64, at: &mut EntryContext<'_>) -> Vec<u8> {
        let (mut hashes, mut text) = (FxHashSet::default(), Vec::new());
        let tries = (0..count.min(MOST_DISTINCT)).map(|number| {
            let mut is_distinct = |&turn: &u8| {
                text.clear();
                self.phrase(number, turn, at, &mut text);
                hashes.insert(xxhash_rust::xxh3::xxh3_64(&text))
            };
            (0..TRIES).find(&mut is_distinct).unwrap_or(TRIES - 1)
        });
        tries.collect()
    }

    pub fn write(&self, at: &mut EntryContext<'_>, out: &mut Vec<u8>) {
        let Some(phrases) = &self.phrases else { return self.draw(at, out) };
        let number = phrases.draw(again(at.bits(self.stream), 1));
        let tries = self.tries.get_or_init(|| self.find_tries(phrases.end(), at));
        let turn = usize::try_from(number).ok().and_then(|number| tries.get(number).copied());
        self.phrase(number, turn.unwrap_or(0), at, out);
    }

    pub fn most(&self) -> u64 {
        self.texts.iter().map(|text| text.most).max().unwrap_or(0)
    }

    pub fn is_printable(&self) -> bool {
        self.texts.iter().all(|text| text.printable)
    }
}
